"""Runs the checks of a repro, each in its own process, and judges what they report.

    python portable/harness REPRO.py [--set NAME=VALUE …] [--json [FILE]] [--trials N]
                                     [--python PATH]

The child observes, the parent judges: a check returns observations over a private
channel. This package decides requirements, predicate and verdict, from the header of
the repro. No evidence, no verdict: bug_absent needs a clean control and a detector that
fires.

Standard library only, syntax of Python 3.8, because this package also runs on machines
that have nothing but torch. Only the child imports torch.

Exit status: 0 bug_absent, 1 bug_present, 125 not_applicable, 2 anything else.
"""

from .cells import CELL_FIELDS, Cells, judged_cell
from .channel import DEEPEST_FRAME, too_deep
from .checks import (
    REQUIRED_CHECKS,
    cell_checks,
    check_order,
    check_spec,
    is_check,
    list_checks,
    on_device,
    read_repro,
    times_of,
    variant_checks,
)
from .child import become_check, settle_torch, usable_cpus, wanted_threads
from .cli import main
from .contract import parse_header, parse_predicate, predicate_holds
from .driver import BUILD_KEYS, KILLERS, MOST_REPEATS, drive
from .fields import ContractError, Header, parse_dependency, release
from .forks import Forks
from .identity import cheap_facts, identity
from .judge import (
    assess,
    classify,
    judge,
    judge_variant,
    misrecorded,
    unmet_requirement,
)
from .parameters import (
    PARAMETER_TEXTS,
    ParameterError,
    amount,
    at_values,
    choose,
    read_settings,
    read_value,
    read_values,
    shown_value,
)
from .parent import (
    Unfit,
    check_fitness,
    import_torch,
    no_gpu,
    reseed,
    restore_environment,
)
from .parts import parts_of
from .plain import CHILD_ENV, INHERITED_ENV, probe, start_plain
from .process import (
    Ended,
    child_command,
    exit_status,
    kill_marked,
    private_mib,
    process_failure,
    processor_limit_s,
)
from .spec import (
    RESERVED_TEXTS,
    Cancelled,
    CheckSpec,
    Report,
    Start,
    observation_problems,
    reported_observations,
)
from .toml import TomlError
from .values import (
    DEVICES,
    EXIT_CODES,
    FIDELITIES,
    LOG_KEEP_BYTES,
    MIB,
    NEEDS,
    OTHER_DEVICES,
    PROBE_TIMEOUT_S,
    PROTOCOL,
    SCHEMA,
    VERDICTS,
    build_slug,
    decode,
    dumps,
    encode,
    evidence_digest,
    sealed,
    source_digest,
    summary,
    utc_now,
    visible,
)
from .watch import watch
from .words import reason_text, sentence, sentences, settings_of

__all__ = [
    "BUILD_KEYS",
    "CELL_FIELDS",
    "CHILD_ENV",
    "DEEPEST_FRAME",
    "DEVICES",
    "EXIT_CODES",
    "FIDELITIES",
    "INHERITED_ENV",
    "KILLERS",
    "LOG_KEEP_BYTES",
    "MIB",
    "MOST_REPEATS",
    "NEEDS",
    "OTHER_DEVICES",
    "PARAMETER_TEXTS",
    "PROBE_TIMEOUT_S",
    "PROTOCOL",
    "REQUIRED_CHECKS",
    "RESERVED_TEXTS",
    "SCHEMA",
    "VERDICTS",
    "Cancelled",
    "Cells",
    "CheckSpec",
    "ContractError",
    "Ended",
    "Forks",
    "Header",
    "ParameterError",
    "Report",
    "Start",
    "TomlError",
    "Unfit",
    "amount",
    "assess",
    "at_values",
    "become_check",
    "build_slug",
    "cell_checks",
    "cheap_facts",
    "check_fitness",
    "check_order",
    "check_spec",
    "child_command",
    "choose",
    "classify",
    "decode",
    "drive",
    "dumps",
    "encode",
    "evidence_digest",
    "exit_status",
    "identity",
    "import_torch",
    "is_check",
    "judge",
    "judge_variant",
    "judged_cell",
    "kill_marked",
    "list_checks",
    "main",
    "misrecorded",
    "no_gpu",
    "observation_problems",
    "on_device",
    "parse_dependency",
    "parse_header",
    "parse_predicate",
    "parts_of",
    "predicate_holds",
    "private_mib",
    "probe",
    "process_failure",
    "processor_limit_s",
    "read_repro",
    "read_settings",
    "read_value",
    "read_values",
    "reason_text",
    "release",
    "reported_observations",
    "reseed",
    "restore_environment",
    "sealed",
    "sentence",
    "sentences",
    "settings_of",
    "settle_torch",
    "shown_value",
    "source_digest",
    "start_plain",
    "summary",
    "times_of",
    "too_deep",
    "unmet_requirement",
    "usable_cpus",
    "utc_now",
    "variant_checks",
    "visible",
    "wanted_threads",
    "watch",
]
