"""Contract terms on the tensors: names, shapes, ranks and values, against the base."""

from __future__ import annotations

from pipeline.base.adapter_format import KEY_PREFIX, PARTS, WEIGHTS_FILE
from pipeline.base.adapter_shapes import Shapes, part_shapes
from pipeline.base.safetensors_file import told
from pipeline.release.adapter_config import rank_of, scale_of, scales_inputs, targets
from pipeline.release.case import (
    MAGNITUDE,
    TENSOR_NAME,
    Broken,
    Case,
    Finding,
    Rule,
    not_applicable,
)
from pipeline.release.tensor_data import FLOAT_BITS

EMBEDDINGS = frozenset("embed_tokens wte word_embeddings embed_in tok_embeddings".split())
HEADS = frozenset("lm_head embed_out".split())
RANK_SIDE = {"LORA": ("lora_A.weight", 0), "ADALORA": ("lora_A", 0), "LOHA": ("hada_w1_a", 1)}
"""`peft_type` → the tensor and the side of it that is the rank; others do not show theirs."""
SCALES = {"ADALORA": "alpha/r", "LOHA": "alpha/r", "LOKR": "none: alpha is r"}


def shapes_of(case: Case, module: str, rank: int) -> Shapes:
    """Tensors that PEFT 0.9.0 makes for a module at this rank."""
    rows, columns = case.base_shapes[f"{module}.weight"]
    return part_shapes(
        case.kind,
        rows,
        columns,
        rank,
        dora=bool(case.config.get("use_dora")),
        inputs=scales_inputs(case.config, module),
    )


def rank_in_file(case: Case, module: str) -> int:
    """Rank that a module's tensors have; the config's where they do not show it."""
    if case.kind not in RANK_SIDE:
        return rank_of(case.config, module)
    part, side = RANK_SIDE[case.kind]
    shape = case.modules[module][part].shape
    return shape[side] if len(shape) > side else 0


def tensor_file(case: Case) -> Finding:
    """The file is well-formed and every tensor holds something."""
    return Finding(len(case.header.tensors), "at least 1")


def tensor_names(case: Case) -> Finding:
    """Every tensor is a part of the type's update, named as PEFT 0.9.0 names it."""
    parts = PARTS[case.kind]
    for name in sorted(case.header.tensors):
        if not name.startswith(KEY_PREFIX):
            raise Broken(f"tensor {told(name)} does not start with {KEY_PREFIX!r}")
        match = TENSOR_NAME.fullmatch(name)
        if not match or match["part"] not in parts:
            raise Broken(f"tensor {told(name)} is not {' or '.join(parts)} of a module")
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
            raise Broken(f"{told(module)} is the embedding")
        if leaf in HEADS and (case.tied or f"{leaf}.weight" not in case.base_shapes):
            raise Broken(f"{told(module)} is the output head, tied to the embedding in this base")
    return Finding()


def tensor_modules(case: Case) -> Finding:
    """Every adapted module is a linear layer of the base."""
    for module in case.modules:
        shape = case.base_shapes.get(f"{module}.weight")
        if shape is None:
            raise Broken(f"the base has no module {told(module)}")
        if len(shape) != 2:
            raise Broken(f"{told(module)} is not a linear layer: its weight is {list(shape)}")
    return Finding(len(case.modules))


def pairs(case: Case) -> Finding:
    """All parts of an update come together; a magnitude with DoRA and only then."""
    for module, parts in case.modules.items():
        wanted = shapes_of(case, module, rank_of(case.config, module))
        for part in sorted(wanted.keys() ^ parts.keys()):
            state = "lacks" if part in wanted else "must not have"
            raise Broken(f"module {told(module)} {state} {part}")
    return Finding(len(case.modules))


def tensor_shapes(case: Case) -> Finding:
    """Shapes are those that PEFT 0.9.0 makes, such as A [r, in] and B [out, r]."""
    for module, parts in case.modules.items():
        fits = shapes_of(case, module, rank_in_file(case, module))
        sides = list(case.base_shapes[f"{module}.weight"])
        for part, info in parts.items():
            if info.shape != fits[part]:
                raise Broken(
                    f"{part} of {told(module)} is {told(list(info.shape))}, "
                    f"the base's weight of {sides} wants {list(fits[part])}"
                )
    return Finding()


def selection(case: Case) -> Finding:
    """What the config selects in the base is what the file holds, no more, no less."""
    wanted = case.config["target_modules"]
    for entry in wanted if isinstance(wanted, list) else []:
        if not any(name == entry or name.endswith(f".{entry}") for name in case.modules):
            raise Broken(
                f"`target_modules` names {told(entry)}, but the file adapts no such module"
            )
    selected = {module for module in case.base_modules if targets(case.config, module)}
    for module in sorted(selected - case.modules.keys()):
        raise Broken(f"the config selects {told(module)}, but the file has no tensor for it")
    for module in sorted(case.modules.keys() - selected):
        raise Broken(f"the file adapts {told(module)}, but the config does not select it")
    return Finding(len(selected))


def tensor_ranks(case: Case) -> Finding:
    """Ranks in the file are those that the config gives, patterns included."""
    if case.kind == "IA3":
        return not_applicable("IA3 has no rank")
    largest = 0
    for module in case.modules:
        found, wanted = rank_in_file(case, module), rank_of(case.config, module)
        if found != wanted:
            raise Broken(
                f"{told(module)} has rank {found}, the config says {wanted}", found, wanted
            )
        largest = max(largest, found)
    return Finding(largest)


def rank_limit(case: Case) -> Finding:
    """The largest rank found in the tensors."""
    if case.kind == "IA3":
        return not_applicable("IA3 has no rank")
    name, rank = max(
        ((module, rank_in_file(case, module)) for module in case.modules),
        key=lambda pair: pair[1],
    )
    if rank > case.limits.max_rank:
        raise Broken(f"{told(name)} has rank {rank}", rank, case.limits.max_rank)
    return Finding(rank, case.limits.max_rank)


def scale(case: Case) -> Finding:
    """The factor on the update that PEFT 0.9.0 will apply, stated for other readers."""
    scales = (scale_of(case.config, module) for module in case.modules)
    found = sorted({one for one in scales if one is not None})
    if not found:
        return not_applicable(f"{case.kind} has no factor")
    plain = "alpha/sqrt(r)" if case.config.get("use_rslora") else "alpha/r"
    kind = SCALES.get(case.kind, plain)
    if len(found) == 1:
        return Finding(round(found[0], 6), detail=kind)
    return Finding(f"{found[0]:g} to {found[-1]:g}", detail=f"{kind}, by patterns")


def finite(case: Case) -> Finding:
    """No NaN, no infinity."""
    for name, scan in case.scans.items():
        if scan.nonfinite:
            raise Broken(
                f"{scan.nonfinite} values of {told(name)} are not finite", scan.nonfinite, 0
            )
    return Finding(0, 0)


def not_zero(case: Case) -> Finding:
    """At least one module's update does something."""

    def works(module: str, part: str) -> bool:
        scan = case.scans[f"{KEY_PREFIX}{module}.{part}"]
        return bool(scan.not_one if case.kind == "IA3" else scan.nonzero)

    alive = sum(
        all(works(module, part) for part in parts if part != MAGNITUDE)
        for module, parts in case.modules.items()
    )
    if not alive:
        what = "every factor is 1" if case.kind == "IA3" else "the update is zero in every module"
        raise Broken(f"{what}: the adapter changes nothing", 0, "at least 1")
    return Finding(alive, "at least 1", f"of {len(case.modules)} modules")


NAMED = ("tensor-names", "config-values")
FITTING = ("tensor-shapes", "config-rank")
RANKED = ("rank-limit", "selection")

TENSOR_RULES = (
    Rule("tensor-file", "weights are well-formed safetensors", ("size",), tensor_file),
    Rule("tensor-names", "only tensors of the type", ("tensor-file", "peft-type"), tensor_names),
    Rule("tensor-type", "one float type", ("tensor-file",), tensor_type),
    Rule("elements", "elements in all", ("tensor-file",), elements),
    Rule("no-embeddings", "no embedding, no tied output head", NAMED, no_embeddings),
    Rule("tensor-modules", "every module is one of the base", ("no-embeddings",), tensor_modules),
    Rule("pairs", "all parts of an update", ("tensor-modules",), pairs),
    Rule("tensor-shapes", "shapes fit the base", ("pairs",), tensor_shapes),
    Rule("selection", "config selects what the file holds", ("pairs",), selection),
    Rule("rank-limit", "largest rank in the tensors", FITTING, rank_limit),
    Rule("tensor-ranks", "ranks are the config's", RANKED, tensor_ranks),
    Rule("scale", "factor on the update", ("tensor-ranks",), scale),
    Rule("finite", "values are finite", ("tensor-names", "tensor-type"), finite),
    Rule("not-zero", "modules with a non-zero update", ("finite", "pairs"), not_zero),
)
