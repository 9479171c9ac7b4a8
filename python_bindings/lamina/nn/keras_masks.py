"""Masks in Keras's config.json: the calls that make them, and the keywords that pass them on. Lamina makes the masks of Embedding and Masking itself, so these are left out."""
from __future__ import annotations

from .._structure import flatten
from .keras_config import Unfit

_KEYWORDS = ("mask", "query_mask", "key_mask", "value_mask")
_OPS = ("NotEqual", "Any", "LogicalOr", "ExpandDims", "ZerosLike", "OnesLike", "Concatenate")  # what makes masks, and joins them


def given(node) -> dict:
    """The masks that a call is given, by keyword."""
    keywords = node.get("kwargs") if isinstance(node, dict) else None
    return {key: value for key, value in keywords.items() if key in _KEYWORDS and isinstance(value, dict)} if isinstance(keywords, dict) else {}


def calls(nodes, entries, config, parents) -> set:
    """Those of a functional model's calls, {(layer, number): call}, that do nothing but make masks. parents(call, place) are the calls whose results it takes."""
    needs = {place: parents(node, place) + ([(place[0], place[1] - 1)] if place[1] else []) for place, node in nodes.items()}
    passed = {place: parents({"args": given(node)}, place) for place, node in nodes.items()}
    wanted, outputs = set().union(*passed.values()), [part for part in flatten(config.get("output_layers"))[0] if isinstance(part, str)]
    used = wanted.union(*needs.values())

    def reached(places):
        found, waiting = set(), list(places)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting.extend(needs.get(place, ()))
        return found

    made = (reached(wanted) - reached(place for place in nodes if place not in used or place[0] in outputs)) & nodes.keys()
    begins = []  # (a call whose result has steps to leave out, the value that says so)
    for place, node in nodes.items():
        kind, own = entries[place[0]].get("class_name"), entries[place[0]].get("config")
        if isinstance(own, dict) and (kind == "Masking" or kind == "Embedding" and own.get("mask_zero")):
            begins += [(parent, own.get("mask_value", 0)) for parent in parents(node, place)]
    for place in made:
        kind, args = entries[place[0]].get("class_name"), nodes[place].get("args")
        begun = kind != "NotEqual" or isinstance(args, list) and any((parent, args[-1]) in begins for parent in parents(nodes[place], place))
        if kind not in _OPS or not begun:
            raise Unfit(f"'{place[0]}' makes a mask that is not of an Embedding or Masking")
    for place, masks in passed.items():
        if not made.issuperset(masks):
            raise Unfit(f"a call of '{place[0]}' gives a mask of its own: Lamina takes those of Embedding and Masking")
    return made
