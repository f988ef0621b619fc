"""Runs the checks of a repro, each in its own process, and judges what they report.

    python portable/harness REPRO.py [--set NAME=VALUE …] [--json [FILE]] [--trials N]
                                     [--python PATH]

The child observes, the parent judges: a check returns observations over a private
channel. This package decides requirements, predicate and verdict, from the header of
the repro. No evidence, no verdict: bug_absent needs a clean control and a detector that
fires.

Standard library only, syntax of Python 3.8, because this package also runs on machines
that have nothing but torch. Only the child imports torch. What others use of it is what
stands imported here.

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
from .child import become_check, usable_cpus, wanted_threads
from .cli import add_options, main, speak_utf8
from .contract import parse_header, parse_predicate, predicate_holds
from .driver import BUILD_KEYS, KILLERS, MOST_REPEATS, drive
from .fields import ContractError, Header, parse_dependency, release
from .forks import Forks
from .identity import cheap_facts, identity
from .judge import (
    assess,
    examine,
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
    shown_settings,
    shown_value,
)
from .parent import (
    check_fitness,
    import_torch,
    no_gpu,
    reseed,
    restore_environment,
)
from .parts import parts_of
from .plain import INHERITED_ENV, child_environment, probe, start_plain
from .process import (
    Ended,
    child_command,
    exit_status,
    kill_marked,
    order_of,
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
from .words import last_output, reason_text, sentence, sentences, settings_of
