"""YAML dialect of the files: plain words follow YAML 1.2, where 1.1 surprises.

In 1.1 `010` was 8, `1:30` was 90, `2024-01-01` a date and `no` false. Here they are texts, as written: right
where a text is wanted (an argument, a variable), and where a number is, an error that shows them. `1e3` is a
number. A number too large for one is an error. In a list of `args` nothing is a number: `1.10` stays `1.10`.
"""

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*|0x[0-9a-fA-F]+|0o[0-7]+)")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9_]*)(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
#: More digits than any number here, and than Python turns into one in no time.
_MOST_DIGITS = 400
#: The key whose list holds a program's arguments: texts, which are not to be guessed from numbers.
_ARGUMENTS = "args"
_WORDS = (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool")


class Reader(yaml.SafeLoader):
    """PyYAML's safe loader with these words."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own way
        first: [(tag, pattern) for tag, pattern in found if tag in (f"{_TAG}null", f"{_TAG}merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Keys and values; arguments as they are written."""
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            pairs = [
                (key, _as_written(value) if key.value == _ARGUMENTS else value) for key, value in node.value
            ]
            node = yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)
        return super().construct_mapping(node, deep)

    def _whole(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node))
        if len(text) > _MOST_DIGITS:
            raise _problem(node, f"a number with {len(text)} digits is too large")
        if not _INT.fullmatch(text):
            raise _problem(node, f"{text!r} is not a whole number")
        return int(text.replace("_", ""), 0)

    def _real(self, node: yaml.ScalarNode) -> float:
        text = str(self.construct_scalar(node))
        word = text.lower().lstrip("+-")
        if word in (".inf", ".nan"):
            return float(text.replace(".", ""))
        if len(text) > _MOST_DIGITS or not (_FLOAT.fullmatch(text) or _INT.fullmatch(text)):
            raise _problem(node, f"{text[:40]!r} is no number")
        found = float(text.replace("_", ""))
        if found in (float("inf"), float("-inf")):
            raise _problem(node, f"{text} is too large for a number")
        return found


def _as_written(node: yaml.Node) -> yaml.Node:
    """Copy of a list with numbers, trues and falses as texts; an alias may use the node elsewhere."""
    if not isinstance(node, yaml.SequenceNode):
        return node
    items = [
        yaml.ScalarNode(f"{_TAG}str", item.value, item.start_mark, item.end_mark)
        if isinstance(item, yaml.ScalarNode) and item.tag in _WORDS
        else item
        for item in node.value
    ]
    return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark)


def _problem(node: yaml.Node, what: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


Reader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), "tTfF")
Reader.add_implicit_resolver(f"{_TAG}int", re.compile(rf"(?:{_INT.pattern})\Z"), "-+0123456789")
Reader.add_implicit_resolver(f"{_TAG}float", re.compile(rf"(?:{_FLOAT.pattern})\Z"), "-+0123456789.")
Reader.add_constructor(f"{_TAG}int", Reader._whole)
Reader.add_constructor(f"{_TAG}float", Reader._real)
