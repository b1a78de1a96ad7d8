"""Contract terms on the tensors: names, shapes, ranks and values, against the base."""

from __future__ import annotations

from pipeline.base.adapter_format import KEY_PREFIX, WEIGHTS_FILE
from pipeline.release.adapter_config import rank_of, scale_of, targets
from pipeline.release.case import MAGNITUDE, TENSOR_NAME, A, B, Broken, Case, Finding, Rule
from pipeline.release.tensor_data import FLOAT_BITS

EMBEDDINGS = frozenset("embed_tokens wte word_embeddings embed_in tok_embeddings".split())
HEADS = frozenset("lm_head embed_out".split())


def tensor_file(case: Case) -> Finding:
    """The file is well-formed and every tensor holds something."""
    return Finding(len(case.header.tensors), "at least 1")


def tensor_names(case: Case) -> Finding:
    """Every tensor is a half of a LoRA update, named as PEFT 0.9.0 names it."""
    for name in sorted(case.header.tensors):
        if not name.startswith(KEY_PREFIX):
            raise Broken(f"tensor {name!r} does not start with {KEY_PREFIX!r}")
        if not TENSOR_NAME.fullmatch(name):
            raise Broken(f"tensor {name!r} is not lora_A.weight or lora_B.weight of a module")
    return Finding(len(case.header.tensors))


def tensor_type(case: Case) -> Finding:
    """One float type for the whole file."""
    found = sorted({info.dtype for info in case.header.tensors.values()})
    if len(found) != 1 or found[0] not in FLOAT_BITS:
        raise Broken(f"{WEIGHTS_FILE} holds {', '.join(found)}", ", ".join(found), "one float type")
    return Finding(found[0], " or ".join(sorted(FLOAT_BITS)))


def elements(case: Case) -> Finding:
    """Elements of all tensors."""
    found = sum(info.elements for info in case.header.tensors.values())
    if found > case.limits.max_elements:
        raise Broken(f"{found:,} elements", found, case.limits.max_elements)
    return Finding(found, case.limits.max_elements)


def no_embeddings(case: Case) -> Finding:
    """No update of the embedding, nor of an output head that shares its weights."""
    wanted = case.config["target_modules"]
    named = [*case.modules, *(wanted if isinstance(wanted, list) else [])]
    for module in named:
        leaf = module.rpartition(".")[2]
        if leaf in EMBEDDINGS:
            raise Broken(f"{module!r} is the embedding")
        if leaf in HEADS and (case.tied or f"{leaf}.weight" not in case.base_shapes):
            raise Broken(f"{module!r} is the output head, tied to the embedding in this base")
    return Finding()


def tensor_modules(case: Case) -> Finding:
    """Every adapted module is a linear layer of the base."""
    for module in case.modules:
        shape = case.base_shapes.get(f"{module}.weight")
        if shape is None:
            raise Broken(f"the base has no module {module!r}")
        if len(shape) != 2:
            raise Broken(f"{module!r} is not a linear layer: its weight is {list(shape)}")
    return Finding(len(case.modules))


def pairs(case: Case) -> Finding:
    """A and B come together; a magnitude too, with DoRA and only then."""
    wanted = {A, B, MAGNITUDE} if case.config.get("use_dora") else {A, B}
    for module, parts in case.modules.items():
        for part in sorted(wanted ^ parts.keys()):
            state = "lacks" if part in wanted else "must not have"
            raise Broken(f"module {module!r} {state} {part}")
    return Finding(len(case.modules))


def tensor_shapes(case: Case) -> Finding:
    """A is [r, in], B is [out, r], a magnitude is [out]."""
    for module, parts in case.modules.items():
        rows, columns = case.base_shapes[f"{module}.weight"]
        rank = parts[A].shape[0] if parts[A].shape else 0
        fits = {A: (rank, columns), B: (rows, rank), MAGNITUDE: (rows,)}
        for part, info in parts.items():
            if info.shape != fits[part]:
                raise Broken(
                    f"{part} of {module!r} is {list(info.shape)}, "
                    f"the base's weight of {[rows, columns]} wants {list(fits[part])}"
                )
    return Finding()


def selection(case: Case) -> Finding:
    """What the config selects in the base is what the file holds, no more, no less."""
    wanted = case.config["target_modules"]
    for entry in wanted if isinstance(wanted, list) else []:
        if not any(name == entry or name.endswith(f".{entry}") for name in case.modules):
            raise Broken(f"`target_modules` names {entry!r}, but the file adapts no such module")
    selected = {module for module in case.base_modules if targets(case.config, module)}
    for module in sorted(selected - case.modules.keys()):
        raise Broken(f"the config selects {module!r}, but the file has no tensor for it")
    for module in sorted(case.modules.keys() - selected):
        raise Broken(f"the file adapts {module!r}, but the config does not select it")
    return Finding(len(selected))


def tensor_ranks(case: Case) -> Finding:
    """Ranks in the file are those that the config gives, patterns included."""
    for module, parts in case.modules.items():
        found, wanted = parts[A].shape[0], rank_of(case.config, module)
        if found != wanted:
            raise Broken(f"{module!r} has rank {found}, the config says {wanted}", found, wanted)
    return Finding(max(parts[A].shape[0] for parts in case.modules.values()))


def rank_limit(case: Case) -> Finding:
    """The largest rank found in the tensors."""
    name, rank = max(
        ((module, parts[A].shape[0]) for module, parts in case.modules.items()),
        key=lambda pair: pair[1],
    )
    if rank > case.limits.max_rank:
        raise Broken(f"{name!r} has rank {rank}", rank, case.limits.max_rank)
    return Finding(rank, case.limits.max_rank)


def scale(case: Case) -> Finding:
    """The factor on B·A that PEFT 0.9.0 will apply, stated for other readers."""
    found = sorted({scale_of(case.config, module) for module in case.modules})
    kind = "alpha/sqrt(r)" if case.config.get("use_rslora") else "alpha/r"
    if len(found) == 1:
        return Finding(round(found[0], 6), detail=kind)
    return Finding(f"{found[0]:g} to {found[-1]:g}", detail=f"{kind}, by patterns")


def finite(case: Case) -> Finding:
    """No NaN, no infinity."""
    for name, scan in case.scans.items():
        if scan.nonfinite:
            raise Broken(f"{scan.nonfinite} values of {name!r} are not finite", scan.nonfinite, 0)
    return Finding(0, 0)


def not_zero(case: Case) -> Finding:
    """At least one module's update is not zero."""
    alive = sum(
        all(
            case.scans[f"{KEY_PREFIX}{module}.{part}"].nonzero
            for part in (A, B) if part in parts
        )
        for module, parts in case.modules.items()
    )  # fmt: skip
    if not alive:
        raise Broken("B·A is zero in every module: the adapter changes nothing", 0, "at least 1")
    return Finding(alive, "at least 1", f"of {len(case.modules)} modules")


NAMED = ("tensor-names", "config-values")
FITTING = ("tensor-shapes", "config-rank")
RANKED = ("rank-limit", "selection")

TENSOR_RULES = (
    Rule("tensor-file", "weights are well-formed safetensors", ("file-set",), tensor_file),
    Rule("tensor-names", "only lora_A and lora_B tensors", ("tensor-file",), tensor_names),
    Rule("tensor-type", "one float type", ("tensor-file",), tensor_type),
    Rule("elements", "elements in all", ("tensor-file",), elements),
    Rule("no-embeddings", "no embedding, no tied output head", NAMED, no_embeddings),
    Rule("tensor-modules", "every module is one of the base", ("no-embeddings",), tensor_modules),
    Rule("pairs", "A and B in pairs", ("tensor-modules",), pairs),
    Rule("tensor-shapes", "shapes fit the base", ("pairs",), tensor_shapes),
    Rule("selection", "config selects what the file holds", ("pairs",), selection),
    Rule("rank-limit", "largest rank in the tensors", FITTING, rank_limit),
    Rule("tensor-ranks", "ranks are the config's", RANKED, tensor_ranks),
    Rule("scale", "factor on B·A", ("tensor-ranks",), scale),
    Rule("finite", "values are finite", ("tensor-names", "tensor-type"), finite),
    Rule("not-zero", "modules with a non-zero update", ("finite", "pairs"), not_zero),
)
