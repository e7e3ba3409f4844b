"""Protocols: who is right and what is reported, as data in a TOML file."""

from reid_vpr_eval.protocol.loading import list_protocols, load_protocol, protocol_folder
from reid_vpr_eval.protocol.protocol import Protocol
from reid_vpr_eval.protocol.schema import (
    DrawTable,
    ExpectedTable,
    FramesRule,
    LabelRule,
    ListedRule,
    NearestRule,
    PoseRule,
    Rule,
    WithinRule,
)

__all__ = [
    "DrawTable",
    "ExpectedTable",
    "FramesRule",
    "LabelRule",
    "ListedRule",
    "NearestRule",
    "PoseRule",
    "Protocol",
    "Rule",
    "WithinRule",
    "list_protocols",
    "load_protocol",
    "protocol_folder",
]
