"""The corpus of tests/repros: each program, and how it must end in every tier.

A file there is what is its own of a program; tests/support/hostile_sources.py makes the
whole one of it.

An end is a verdict, followed by its reason where it has one ("error timeout"), or
`NOT_READ` for a source that keeps no contract and is never started. Most programs say
by `reached` what they got hold of: bug_present is then an escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.support import hostile_sources

HELD, REACHED, NOT_READ = "bug_absent", "bug_present", "not read"
# Programs by themselves in tests/repros are fixtures of other tests.
FOLDERS = (
    *("resources", "crashes", "processes", "escapes", "secrets", "network"),
    *("forgery", "observations", "output", "judge", "contract", "controls"),
)


@dataclass(frozen=True)
class Program:
    """One file, the ends it may have, and those it may have besides in weaker tiers."""

    name: str
    ends: frozenset[str]
    besides: Mapping[str, frozenset[str]] = field(default_factory=dict)
    at: str | None = None  # the check that it must end at

    def may_end(self, tier: str) -> frozenset[str]:
        return self.ends | self.besides.get(tier, frozenset())

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0]

    def source(self, targets: object = None) -> bytes:
        """The whole program; `targets`: what it aims at, where it asks for that."""
        return hostile_sources.whole(self.name, targets or {})

    @property
    def needs_torch(self) -> bool:
        """Whether a torch that only knows its version is not enough."""
        wanted = rb"^import (?:torch|numpy)\b|^# needs = "
        return bool(re.search(wanted, self.source(), re.M))

    @property
    def needs_compiler(self) -> bool:
        return b'"compiler"' in self.source()


def ends(names: str, *wanted: str, at: str | None = None) -> Iterable[Program]:
    """Programs that end like this in every tier."""
    return [Program(name, frozenset(wanted), at=at) for name in names.split()]


def errors(names: str, *reasons: str, at: str = "trigger") -> Iterable[Program]:
    return ends(names, *(f"error {reason}" for reason in reasons), at=at)


def held(names: str, tiers: str, *wanted: str) -> Iterable[Program]:
    """Programs that reach nothing in these tiers; weaker ones claim nothing."""
    besides = {tier: frozenset({HELD, REACHED}) for tier in "ABCD" if tier not in tiers}
    return [
        Program(name, frozenset(wanted or [HELD]), besides) for name in names.split()
    ]


FLOOD = ("limit:output", "timeout")
PROCESSES, MEMORY = "error limit:processes", "error limit:memory"

PROGRAMS: tuple[Program, ...] = (
    # --- resources: nothing is taken beyond the limits -------------
    # Without a cgroup or a user of its own, what a run starts is only looked at.
    *held("resources/fork_bomb resources/thread_bomb", "AB", HELD, PROCESSES),
    *held("resources/fork_bomb_unhandled", "AB", PROCESSES, "error raised"),
    *ends("resources/fork_tree resources/spawn_storm", HELD, PROCESSES),
    *errors("resources/memory_hog resources/memory_of_children", "limit:memory"),
    *errors("resources/memory_shared", "limit:memory"),
    # Only a control group counts pages that nobody maps.
    *held("resources/memory_unmapped", "A", MEMORY),
    *ends("resources/memory_in_pipes", HELD, MEMORY),
    *held("resources/fill_shared_memory resources/fill_disk", "AB"),
    Program(
        "resources/fill_inodes",
        frozenset({HELD}),
        # On a real disk, beside others that fill it.
        dict.fromkeys("CD", frozenset({REACHED, "error timeout"})),
    ),
    *ends("resources/deep_folders resources/locked_folders", HELD),
    *errors("resources/big_file", "raised"),
    *errors("resources/big_file_killed", "limit:disk"),
    *ends("resources/descriptors resources/own_limits", HELD),
    *ends("resources/gpu_memory", "error raised", "not_applicable device"),
    *errors("resources/sleep resources/busy resources/deaf", "timeout"),
    *errors("resources/deaf_to_processor_time resources/stop_itself", "timeout"),
    *errors("resources/recursion", "raised"),
    *errors("resources/recursion_in_c", "crash:SIGSEGV"),
    # A flood of short lines takes its reader so long that the clock may be first.
    *errors("resources/flood_stdout resources/flood_stderr", *FLOOD),
    *errors("resources/flood_one_line resources/flood_empty_lines", *FLOOD),
    *ends("resources/flood_from_children", HELD),
    # --- crashes: no report, no verdict ----------------------------
    *errors("crashes/segfault crashes/killed_while_child_lives", "crash:SIGSEGV"),
    *errors("crashes/abort", "crash:SIGABRT"),
    # Where the filter holds, nothing kills itself by the signal that others send.
    *errors("crashes/killed", "raised", "crash:SIGKILL"),
    *errors("crashes/real_time_signal", "crash:SIG40"),
    *errors("crashes/leaves_early crashes/leaves_from_thread", "no_report"),
    *errors("crashes/becomes_another_program", "no_report"),
    *errors("crashes/hang_in_flush", "timeout"),
    *errors("crashes/exit crashes/interrupted crashes/circular_cause", "raised"),
    *errors("crashes/exit_on_import crashes/raise_on_import", "raised", at="control"),
    *errors("crashes/import_error", "import"),
    *ends("crashes/exit_hook", HELD),
    # A child that no program can keep from ending is as good.
    *ends("crashes/hang_at_exit", "error timeout", HELD),
    *errors("crashes/watchdog", "no_report"),
    *errors("crashes/evil_text", "raised"),
    *errors("crashes/evil_text_without_end", "timeout"),
    *errors("crashes/evil_long_text", "raised", "limit:memory", *FLOOD),
    # --- processes: nothing outlives its check ---------------------
    *ends("processes/daemon processes/daemons_in_a_row", HELD),
    *ends("processes/child_keeps_pipes processes/stopped_children", HELD),
    *ends("processes/adopts_orphans processes/leaves_a_listener", HELD),
    *ends("processes/steals_the_end", HELD),
    *errors("processes/deaf_grandchildren processes/stuck_in_vfork", "timeout"),
    # --- escapes ---------------------------------------------------
    # Without a process namespace, a user of its own is what protects the others.
    Program(
        "escapes/kill_parent",
        frozenset({HELD}),
        dict.fromkeys("CD", frozenset({REACHED, "error lost", "error timeout"})),
    ),
    *held("escapes/kill_everyone escapes/signal_others", "AB"),
    *held("escapes/trace_others escapes/raise_limits escapes/privileges", "ABC"),
    *held("escapes/namespaces escapes/system_calls", "ABC"),
    *held("escapes/other_architecture escapes/clock escapes/devices", "ABC"),
    *held("escapes/kernel_settings escapes/own_executable", "ABC"),
    *held("escapes/up_by_descriptors escapes/raw_rights", "ABC"),
    *held("escapes/rights_of_other_architectures escapes/rights_by_ring", "ABC"),
    *held("escapes/flags_of_files escapes/rights_by_programs", "ABC"),
    *held("escapes/own_filter escapes/secret_memory", "ABC"),
    *held("escapes/file_handles escapes/nodes_and_roots", "ABC"),
    *held("escapes/terminal escapes/descriptors", "ABCD"),
    *errors("escapes/clock_of_its_own", "timeout"),
    *ends("escapes/python_settings", HELD, "error channel", "error no_report"),
    # --- secrets: of the site, of other runs, of the next run ------
    *held("secrets/environment secrets/files secrets/other_runs", "ABC"),
    *held("secrets/memory", "ABCD"),
    *ends("secrets/symbolic_links", HELD),
    *held("secrets/poison secrets/writes_outside secrets/hard_links", "ABC"),
    # Landlock does not govern rights and times: a filter does, or another owner.
    *held("secrets/rights secrets/rights_of_the_build", "ABC"),
    *held("secrets/rights_of_the_key secrets/rights_by_descriptors", "ABC"),
    *held("secrets/access_lists secrets/links_and_exchanges", "ABC"),
    *held("secrets/emptied", "ABC"),
    *held("secrets/shared_objects", "AB"),
    Program(
        "secrets/own_source",
        frozenset({HELD}),
        {"D": frozenset({"error refused", "error no_report"})},
    ),
    # --- network ---------------------------------------------------
    *held("network/internet network/unix_sockets", "ABC"),
    *held("network/unix_socket_by_sendto network/unix_socket_raw", "ABC"),
    *held("network/netlink", "ABC"),
    # --- forgery: a report is whole, in order, and the only one ----
    *errors("forgery/stdout", "no_report"),
    *errors("forgery/descriptors", "channel"),
    # A channel of another user's cannot be opened anew.
    *ends("forgery/descriptors_by_name", "error channel", HELD),
    *errors("forgery/second_result forgery/verdict forgery/another_build", "channel"),
    *errors("forgery/result_of_another_check", "channel"),
    *errors("forgery/result_of_another_trial", "channel"),
    *ends("forgery/verdict_in_observations", REACHED),
    *ends("forgery/another_build_in_place", HELD),
    *errors("forgery/then_crash", "crash:SIGSEGV"),
    *errors("forgery/then_hang", "timeout"),
    *errors("forgery/then_status forgery/result_without_end", "no_report"),
    *errors("forgery/then_flood", *FLOOD),
    *ends("forgery/child_reports_later", HELD, "error channel"),
    *errors("forgery/child_reports_first forgery/long_frame", "channel"),
    *errors("forgery/deep_frame", "channel", "contract"),
    *errors("forgery/odd_frames", "raised", "channel"),
    *errors("forgery/odd_result", "contract"),
    *ends("forgery/raw_frame", HELD, "error channel"),
    *errors("forgery/patched_harness forgery/patched_write", "channel"),
    *errors("forgery/patched_builtins", "raised", "no_report"),
    *errors("forgery/tracer", "raised", "no_report"),
    *errors("forgery/closed_descriptors forgery/swapped_descriptors", "no_report"),
    *errors("forgery/channel_as_stdout forgery/full_channel", "channel"),
    *ends("forgery/late_destructor", HELD, "error channel"),
    *ends("forgery/closed_streams", HELD),
    # --- observations: numbers, and nothing else -------------------
    *errors("observations/pickle observations/tensor", "contract"),
    *errors("observations/numpy_integer observations/nothing", "contract"),
    *errors("observations/generator observations/nested", "contract"),
    *errors("observations/encoded_number observations/whole_is_encoded", "contract"),
    *ends(
        "observations/nan observations/other_type observations/truth "
        "observations/missing",
        "inconclusive metric",
        at="trigger",
    ),
    *ends("observations/minus_nan_in_list observations/huge_float", HELD),
    *ends("observations/infinite observations/evil_number", REACHED),
    *errors("observations/huge_integer observations/many_keys", "contract"),
    *errors("observations/endless_integer", "raised", "contract", "channel"),
    *errors("observations/long_text observations/long_list", "contract"),
    *errors("observations/large_table observations/odd_names", "contract"),
    *ends("observations/nan_as_name observations/odd_texts", HELD),
    *errors("observations/name_that_will_not_be_text", "raised"),
    *errors("observations/deep", "raised", "contract", "channel", "crash:SIGSEGV"),
    *errors("observations/fairly_deep", "raised", "contract", "channel"),
    *errors("observations/itself", "raised"),
    *errors("observations/endless_table", "timeout"),
    *errors("observations/growing_table", "limit:memory"),
    *errors("observations/evil_kind", "raised", "contract"),
    *errors("observations/reserved_name", "contract"),
    *ends("observations/not_applicable", "not_applicable said", at="trigger"),
    *errors("observations/requires_anything", "raised", at="requirements"),
    *errors("observations/requires_leaves", "no_report", at="requirements"),
    *ends("observations/requires_markup", "not_applicable said", at="requirements"),
    # --- output ----------------------------------------------------
    *ends("output/escapes output/not_utf_8 output/combining", HELD),
    *ends("output/reads_stdin", HELD),
    *errors("output/waits_for_input", "raised"),
    # --- judge: what misbehaves gives no verdict -------------------
    *ends("judge/control_shows_the_bug", "inconclusive control", at="control"),
    *ends("judge/detector_is_silent", "inconclusive detector_silent", at="detector"),
    *ends("judge/reference_is_infinite", "inconclusive reference", at="reference"),
    *errors("judge/control_hangs", "timeout", at="control"),
    *ends("judge/takes_another_path", "not_applicable not_taken", at="trigger"),
    *ends("judge/sees_it_sometimes", HELD, REACHED),
    *ends("judge/workaround_does_nothing", REACHED),
    # --- contract: refused before anything is started --------------
    *ends(
        "contract/syntax_error contract/not_utf_8 contract/nul contract/empty "
        "contract/no_header contract/two_headers contract/open_header "
        "contract/unknown_key contract/no_limit contract/unlimited "
        "contract/timeout_nan contract/preload contract/other_path "
        "contract/predicate_is_code contract/upper_bound contract/arguments "
        "contract/coroutine contract/twice contract/missing_trigger "
        "contract/made_at_run_time contract/nested_brackets contract/nested_signs "
        "contract/nested_attributes contract/long_integer contract/nested_header",
        NOT_READ,
    ),
    # --- controls: what a sandbox must not break -------------------
    *ends(
        "controls/matmul controls/backward controls/half controls/numpy "
        "controls/threads "
        "controls/programs controls/talks_a_lot "
        "controls/own_source controls/pickles_itself controls/saves_and_loads "
        "controls/files controls/environment controls/chance controls/signals "
        "controls/event_loop controls/script controls/anomaly "
        "controls/gradcheck controls/limits controls/full_report",
        HELD,
    ),
    *ends("controls/shows_the_bug", REACHED),
    *ends("controls/compile", HELD, "not_applicable compiler"),
    # Without namespaces there is no shared memory of its own, and no network.
    *(
        Program(name, frozenset({HELD}), {"C": frozenset({"error raised"})})
        for name in (
            "controls/processes",
            "controls/spawned_processes",
            "controls/shared_memory",
        )
    ),
    *(
        Program(
            f"controls/{name}",
            frozenset({HELD}),
            {"C": frozenset({"error refused", f"not_applicable {need}"})},
        )
        for name, need in (
            ("loader", "loader"),
            ("shares_tensors", "loader"),
            ("loopback", "loopback"),
        )
    ),
)
