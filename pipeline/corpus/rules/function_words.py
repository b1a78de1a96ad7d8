"""Words that give a language away: its commonest function words and connectives.

Read by language.py; holds data alone. Words of one or two plain letters (they are
variables too) and those of `ALSO_ENGLISH` (English words, names' particles, units,
functions) prove nothing by themselves and only add to what the others show.
"""

from __future__ import annotations

WORDS = {
    "Spanish": "que los las una por para está esta este esto es su sus cuántos cuál cada de la "
    "el entonces también pero como donde dónde cuando porque según tenemos tiene hay puede "
    "número ecuación cuyo más qué así muy desde hasta luego ahora ambos obtenemos respuesta "
    "todos un y números son dos del podemos debemos solución calculamos sabemos hemos nos lo "
    "al se con en ser eso esos estos vamos otro otra mismo cuánto sobre calcular hallar "
    "encontrar si no tres cuatro cinco seis siete ocho nueve diez veinte cien",
    "Portuguese": "que não uma para os são por quantos qual cada então também mas como de um com "
    "onde quando porque temos tem há pode número equação seja isso essa esse mais pelo pela "
    "dois podemos até ao aos nos na no das dos em é resposta agora assim devemos vamos "
    "portanto logo soma valor números foi ser muito sobre outro calcular se do da e o a três "
    "quatro cinco seis sete oito nove dez vinte cem",
    "French": "que une dans qui est et du avec sont chaque nombre nous donc alors mais cette ces "
    "aussi quand parce où peut être soit comme leur leurs au aux ainsi puis faut avons "
    "réponse égal égale deux trois trouver cherche obtient obtenons ensuite vaut pas ce cela "
    "ici étape tout tous toutes sur pour par il elle ils ont fait calculer c'est n'est qu'il "
    "d'où l'équation maintenant combien quel quelle devons pouvons entre les des le la de un "
    "en se à l'on quatre cinq sept huit neuf dix douze vingt",
    "Italian": "che della delle degli gli nel nella sono è di una ogni quanti alla quale quindi "
    "allora anche ma quando perché dove abbiamo può essere numero questo questa questi "
    "dobbiamo ora più uguale dei del dal dalla dello ci possiamo sappiamo cioè poiché "
    "risposta due trovare calcolare somma poi così come ha stato il un per non si la le e i "
    "con tre quattro cinque sei sette otto nove dieci venti cento suo sua suoi loro nostro "
    "quello quella quelli quelle tra senza sopra sotto dopo prima mentre però infine già "
    "molto meno tutti tutte altro altra altri ne era erano hanno viene vengono deve "
    "devono resta rimane ciascuno entrambi trenta misura",
    "German": "und der die das ist nicht ein eine einen einer eines mit für von dem zu wie sich "
    "sind wir auf aber auch wenn weil wo haben hat kann jede jeder zahl zahlen also daher "
    "dann durch gilt ergibt müssen muss wird werden jetzt nun somit deshalb noch nur bei aus "
    "nach oder diese dieser dieses daraus folgt gleich antwort lösung zuerst beide des den "
    "im zwei drei als es man um zum zur alle berechnen so vier fünf sechs sieben acht neun "
    "zehn zwölf zwanzig hundert",
    "Dutch": "het een en zijn niet voor dat hoeveel op met wordt elke wat maar ook wij hebben "
    "heeft moet kan deze dit aan bij uit naar dus getal getallen antwoord nu eerst als omdat "
    "waar worden krijgen we twee door van om te daarom dan nog geen alle kunnen vinden de is "
    "in drie vier vijf zes zeven negen tien twaalf twintig hij zij hun haar mijn waren zal "
    "zou zullen zouden moeten gaat gaan geeft gaf beide tussen zonder onder na tijdens elk "
    "ieder iedere alleen weer meer veel waarom wanneer hoe welke wie hier daar dertig "
    "honderd vergelijking gelijk houden",
    "Danish": "og er ikke det som til af hvor mange en et har kan vi skal tallet svaret derfor "
    "nu så med fra på antal løsning lig summen altså først også eller den disse bliver får "
    "jeg at seks syv otte tyve dette denne deres ved mellem uden efter før siden blev være "
    "været havde kunne skulle få går tager giver gav hver hvert hvilken hvad hvis hvorfor "
    "når fordi igen meget mindre tre fem tredive hundrede begge sider tilbage ligning "
    "således dermed hvordan to de",
    "Norwegian": "og er ikke det som til av hvor mange en et har kan vi skal tallet svaret "
    "derfor nå så med fra på antall løsning lik summen altså først også eller disse blir får "
    "jeg at dette denne deres ved mellom uten etter før siden ble være vært hadde kunne "
    "skulle gir går hver hvert hvilken hva hvis hvorfor fordi bare igjen mye mindre tre fem "
    "seks åtte tjue tretti hundre begge sider tilbake ligning hvordan to de den",
    "Swedish": "och är att det som för inte hur många ett av har kan vi ska talet svaret därför "
    "nu så med från på antal lösning lika summan alltså först också eller dessa blir får "
    "måste en två tre fyra sju åtta nio tio tjugo jag detta denna deras vid över mellan utan "
    "efter före sedan blev vara varit hade kunde skulle går ger gav varje vilken vilket vad "
    "varför när eftersom bara igen mycket mindre fem trettio hundra båda sidor tillbaka "
    "ekvation därmed den de till",
    "Polish": "jest nie się że na do liczba liczby oraz dla ile jak który która liczb więc ale "
    "czy gdy mamy może tylko wszystkie każdy odpowiedź teraz zatem jeśli są to przez aby "
    "ponieważ suma równa równanie wynosi także musimy po od tego jego czyli dwa trzy w z i a "
    "cztery pięć sześć siedem osiem dziewięć dziesięć",
    "Czech": "je že se na číslo čísla kolik jak který která ale když máme může všechny "
    "každý nebo není odpověď tedy jsou pro aby protože součet rovna rovnice nyní musíme také "
    "jsme pak dvě tři od do podle to a v i",
    "Slovak": "je že sa na číslo čísla koľko ako ktorý ktorá preto ale keď máme môže všetky "
    "každý alebo nie odpoveď teda sú pre aby pretože súčet rovná rovnica teraz musíme tiež a "
    "v to",
    "Croatian": "je da se na broj broja koliko kako koji koja zato ali kada imamo može svi svaki "
    "ili nije odgovor dakle su za jer zbroj jednak sada moramo također ako od ovo tada i u "
    "to jedan jedna jedno dva dvije četiri pet šest sedam osam devet deset trideset sto iz s "
    "sa po pri prema bez između kroz nakon prije samo još već vrlo tako kao što tko gdje "
    "nego te pa mu nam im ih svoj svom ovaj ove taj biti bio bila bilo nisu smo ćemo će bi "
    "treba iznosi jednako vrijednost umnožak rezultat najprije zatim obje oba strane",
    "Slovene": "je in da se na za so ki ne pa kot tudi ali če ker ko lahko bo bi smo sta ima "
    "imamo število števila koliko kako vsak vse vsota enako enačba torej zato tako ampak "
    "kjer med brez po od do iz z s dva dve štiri pet šest sedem osem devet deset prvi "
    "drugi odgovor sedaj moramo nato naj bil bila to ta",
    "Hungarian": "hogy az és nem egy van szám mennyi ha akkor tehát de mert ahol lehet minden a "
    "ezért kell így most válasz összege egyenlő számok közül vagy mivel kapjuk legyen ez azt",
    "Finnish": "on ja ei että se jos niin joten mutta koska luku luvun kuinka monta myös tai "
    "ovat saadaan täytyy nyt vastaus siis summa yhtä suuri kaikki voidaan tämä lasketaan kun "
    "hän sekä vain vielä sen sitä siitä siinä tästä tämän näin nämä niitä niiden kuin mikä "
    "mitä missä mistä joka jotka jonka jossa ole olemme oli olivat ollut kanssa ilman ennen "
    "jälkeen välillä sitten siksi vaikka yksi kaksi kolme neljä viisi kuusi seitsemän "
    "kahdeksan yhdeksän kymmenen kolmekymmentä sata ensin lopuksi toinen arvo arvon tulos "
    "lukua lukujen saa voi",
    "Estonian": "on ja ei et see kui siis aga sest arv kui palju ka või saame peab nüüd vastus "
    "summa võrdne kõik kuna leiame üks kaks kolm neli viis kuus seitse kaheksa üheksa kümme "
    "sada nende selle seda ning kas kus miks milline mis mida kes oli olid olla oleme saab "
    "tuleb võib pärast enne vahel ilma ainult veel juba iga mõlemad",
    "Turkish": "bir ve bu için ile kaç olan olarak sayı sayısı değil da de ise çünkü ama o zaman "
    "her olur vardır şimdi cevap toplamı eşittir gibi daha sonra göre kadar buradan elde "
    "ederiz iki üç dört beş altı yedi sekiz dokuz yirmi",
    "Indonesian": "yang dan untuk dari dengan adalah jika berapa pada sebuah tidak maka jadi "
    "kita karena bilangan setiap atau sama jumlah ini itu dapat akan harus sehingga nilai "
    "tersebut dua tiga jawaban sekarang hitung di ke empat lima enam tujuh delapan sembilan "
    "sepuluh kami mereka saya anda bukan bisa sudah telah masih oleh juga hanya lebih kurang "
    "antara tanpa setelah sebelum ketika lalu kemudian bahwa apa mengapa bagaimana banyak "
    "semua kedua pertama satu puluh ratus kepada seorang sebanyak",
    "Vietnamese": "và của là một các được có cho số không những trong ta với nếu thì vì bằng này "
    "đó khi như vậy tổng hai mỗi nên phải để ra",
    "Romanian": "și este care sunt pentru că din cu se numărul sau nu dar deci atunci când avem "
    "poate fiecare trebuie acum răspunsul suma egală în ale lui unde dacă prin două de la o "
    "trei patru cinci șase șapte nouă zece",
    "Catalan": "els les una per és que amb dels nombre però també quan perquè tenim pot cada "
    "aquest aquesta llavors doncs són més on hem ara resposta igual dos de la el un i en",
    "Tagalog": "ang ng mga sa na ay hindi kung para dahil ito ilan bilang kaya natin lahat bawat "
    "sagot ngayon dalawang siya niya nila sila nito mayroon isang dalawa tatlo apat lima "
    "anim pito walo siyam upang pero ngunit tayo kapag nang pagkatapos lamang din rin may",
    "Swahili": "na ya wa ni kwa katika hii kama hivyo lakini namba ngapi kila jibu sasa tunapata "
    "mbili za la",
}

ALSO_ENGLISH = frozenset(
    "agora ako ale ali alla alle als also altro ang apa ara arvo ate aus aux bang bare beide "
    "bil bila bilang bio cac care ces cho com come como con cosi dan dar dat del dem den deres "
    "des det die din dit dix door dopo dos dove dua due dus egal elde elk elle enne entre era "
    "esse est etta fait far fem fire foi forst fra fran fur gaan gav gilt hai hans har hat hay "
    "hem her hindi hun hur iedere iga igual ile isang ist ito jest juba kako kama kami kan kas "
    "kaya ked kes kita kolm kot kun kung kus lahat lalu las les lik lima logo loro los lui maar "
    "mame man manga mange mas may med meer meno mentre mes met mio mis misura mit moi molto "
    "most mot muss muy naj nam nay ned nel neli neu non nous nove nun oba oli ora otto ova pak "
    "par pas per pet poi pot pour pre prima pro quan quelle resta saab sada sam sama sao sasa "
    "satu saya seda see sei seis senza sept ser sine som soma son sonra sopra sto suma summa "
    "sur sus tai take tem tien til tong tre tri tva uit uma una valor van vara vay ved veda "
    "veel via vid viis voi waar wat wie zal zato".split()
)

ENGLISH = frozenset(
    "the of and to in is that for it as with are be by this on we a an if what how so let from "
    "then or at can have has which each find there their i you he she not was do but".split()
)
"""Function words: running English text has one in every three words."""

COMMON_ENGLISH = frozenset(
    "these those they them his her its our my your one two three four five six seven eight nine "
    "ten all any both some no more most than when where who why while because since thus hence "
    "therefore also first second third next last now here only just same other another such "
    "like very well even odd may must should would could will does did done been being had were "
    "get gets got give gives given gave make makes made take takes use using used need needs "
    "want know see say show shows check note recall consider suppose assume means mean solve "
    "solving compute calculate add adding subtract multiply divide plus minus times over under "
    "per number numbers value values sum product difference total answer equation expression "
    "function term terms side sides length area point points line lines angle angles triangle "
    "square circle digits digit integer integers positive negative equal equals between into "
    "out up down off about after before through during left right top bottom greater less least "
    "many much few every having go goes went going come comes day days week hour hours minutes "
    "money cost costs buy bought sells people time years old away again still yet wait okay ok "
    "hmm yes maybe actually let's it's that's write written step case cases simplify "
    "simplifying substituting substitute apply applying rewrite rewriting combine factor "
    "factors root roots set way ways follows following above below right-hand left-hand either "
    "neither".split()
)
"""Further words without which few sentences of a solution get along."""

NAME_PARTICLES = frozenset(
    "de la del van der den von di da du le el al des dos das los las ten san santa ibn".split()
)
"""Stand between the words of names."""
