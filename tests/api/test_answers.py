"""The API's shapes (contract §6 to §8) and its refusals, over HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, TestCase, override_settings
from django.utils import timezone

from kb.models import Record
from kb.publishing import saving
from portable import harness
from runner.api.captures import example
from runner.evidence import store
from runner.models import Installation, Run, Worker
from runner.runs import fleet, ledger
from tests.support import runs

# fmt: off
RECORD_KEYS = [
    "id", "slug", "depth", "what_to_do", "modified_at", "publication", "upstream",
    "symptom_class", "components", "title", "symptom", "environment", "root_cause",
    "workarounds", "diagnoses", "fix", "fixes", "affected_when", "holds_on",
    "affected",
    "preconditions", "signatures", "claims", "contradictions", "sources", "aliases",
    "related", "repros", "results", "urls",
]
RUN_KEYS = [
    "id", "record", "repro", "build", "device", "state", "phase", "attempt",
    "position", "eta_s", "joined", "cached", "others_waiting",
    "verdict", "reason", "is_affected",
    "hits", "trials", "parameters", "sentence", "checks", "workarounds", "refuted",
    "tier", "served", "worker", "created_at", "started_at", "finished_at", "evidence",
    "urls",
]
# fmt: on


def cursor(position: str) -> str:
    return base64.b64encode(f"p={position}".encode()).decode()


class ApiTest(TestCase):
    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        cls.repro = cls.record.repros.get()
        cls.build = runs.make_build()

    def get(self, path: str, status: int = 200, **headers: str) -> Any:
        response = self.client.get(f"/api/v1/{path}", headers=headers)
        self.assertEqual(response.status_code, status, response.content)
        return response.json()

    def post(self, path: str, body: Any, status: int) -> Any:
        response = self.client.post(
            f"/api/v1/{path}", json.dumps(body), content_type="application/json"
        )
        self.assertEqual(response.status_code, status, response.content)
        return response.json()

    def assert_problem(self, body: dict[str, Any], code: str, status: int) -> None:
        keys = ["type", "title", "status", "detail", "code", "errors", "request_id"]
        self.assertEqual(list(body), keys)
        self.assertEqual((body["code"], body["status"]), (code, status))
        self.assertEqual(body["type"], f"/problems/{code.replace('_', '-')}")
        self.assertTrue(body["detail"])
        page = self.client.get(f"/en{body['type']}/")
        self.assertEqual(page.status_code, 200)


class RecordApiTest(ApiTest):
    def test_a_record_has_every_key_of_the_contract(self) -> None:
        body = self.get("records/NAN-9001")
        self.assertEqual(list(body), RECORD_KEYS)
        self.assertEqual(body["title"], {"en": "A sample", "zh": "一个样例"})
        self.assertIn("<strong>NaN</strong>", body["symptom"]["html"]["en"])
        self.assertEqual(body["workarounds"][0]["status"], "untested")
        self.assertIn("Turn it off.", body["workarounds"][0]["markdown"]["en"])
        self.assertEqual([row["state"] for row in body["claims"]], ["documented"] * 2)
        self.assertEqual(body["results"]["first_bad"], None)

    def test_one_language_replaces_both_texts(self) -> None:
        body = self.get("records/NAN-9001?lang=zh")
        self.assertEqual((body["title"], body["lang_used"]), ("一个样例", "zh"))
        self.assertEqual(body["urls"]["html"], "/zh/NAN-9001/sample/")
        for path in ("records/NAN-9001", "records"):
            answer = self.client.get(f"/api/v1/{path}?lang=zh")
            self.assertEqual(answer["Content-Language"], "zh-Hans")

    def test_a_key_that_is_not_declared_is_not_answered(self) -> None:
        asked = ["records/NAN-9001", "records", "records/NAN-9001/matrix"]
        before = {path: self.get(path) for path in asked}
        for name in ("affected", "fixes", "sources", "workarounds", "signatures"):
            rows = getattr(self.record, name)
            self.assertTrue(rows, name)
            added = [{**row, "undeclared": 1} for row in rows]
            Record.objects.update(**{name: added})
        for path in asked:
            with self.subTest(path):
                self.assertEqual(self.get(path), before[path])

    def test_evidence_shows_in_results_workarounds_and_claims(self) -> None:
        seen = runs.make_evidence(self.repro)
        store.add(seen, origin="site")
        body = self.get("records/NAN-9001")
        self.assertEqual(body["results"]["present"], 1)
        self.assertEqual(body["results"]["first_bad"], runs.SLUG)
        self.assertEqual(body["workarounds"][0]["status"], "verified")
        self.assertEqual(body["workarounds"][0]["evidence"], seen["digest"])
        by_build = body["workarounds"][0]["status_by_build"]
        self.assertEqual(by_build, {runs.SLUG: "verified"})
        self.assertEqual(body["claims"][0]["state"], "verified")
        self.assertEqual(body["claims"][0]["evidence"], [seen["digest"]])

    def test_the_reviewed_source_is_served_unchanged(self) -> None:
        response = self.client.get("/api/v1/records/NAN-9001/repro.py?form=source")
        self.assertEqual(response.content.decode(), self.repro.source)
        self.assertEqual(
            harness.source_digest(response.content.decode()), self.repro.digest
        )

    def test_drafts_are_hidden_and_withdrawn_records_keep_their_address(self) -> None:
        self.record.publication = "draft"
        saving.save(self.record)
        self.assert_problem(self.get("records/NAN-9001", 404), "unknown_record", 404)
        self.record.publication = "withdrawn"
        saving.save(self.record)
        body = self.get("records/NAN-9001")
        self.assertEqual(body["publication"], "withdrawn")
        self.assertEqual(self.get("records")["items"], [])

    def test_refusals(self) -> None:
        for path, code, status in [
            ("records/NAN-7777", "unknown_record", 404),
            ("records/NAN-9001/nothing.py", "unknown_repro", 404),
            ("records?colour=red", "unknown_parameter", 400),
            ("records?symptom_class=red", "invalid", 400),
            ("records?lang=fr", "invalid", 400),
            ("runs/not-a-uuid", "unknown_run", 404),
            ("evidence/sha256:0", "unknown_evidence", 404),
            ("nothing/here", "not_found", 404),
            ("runs?state=nonsense", "invalid", 400),
            ("runs?verdict=nonsense", "invalid", 400),
            (f"runs?cursor={cursor('yesterday')}", "not_found", 404),
            ("evidence?cursor=yesterday", "not_found", 404),
            ("records?limit=0", "invalid", 400),
            ("records?limit=201", "invalid", 400),
            ("records?limit=many", "invalid", 400),
            ("records?build=nowhere", "unknown_build", 404),
            ("records?q=" + "x" * 3000, "invalid", 400),
            # PostgreSQL refuses such text, with an exception.
            ("records?cursor=%00", "invalid", 400),
            ("records?q=%00", "invalid", 400),
            ("records?component=%00", "invalid", 400),
            ("runs?record=%00", "invalid", 400),
            ("records/%00", "not_found", 404),
            ("records/NAN-9001/%00", "not_found", 404),
            ("evidence/%00", "not_found", 404),
        ]:
            with self.subTest(path):
                # A page of the list, so that a cursor is looked at.
                runs.make_run(self.repro, state="cancelled")
                self.assert_problem(self.get(path, status), code, status)

    def test_a_refusal_tells_what_is_accepted(self) -> None:
        detail = self.get("runs?state=red", 400)["detail"]
        choices = "queued, running, finished, cancelled"
        self.assertEqual(detail, f"state: “red” is none of: {choices}.")
        form = self.client.post("/api/v1/lookup", {"log": "nan"})
        self.assert_problem(form.json(), "unsupported_media_type", 415)
        self.assertIn("application/json", form.json()["detail"])
        html = self.get("records", 406, accept="text/html")
        self.assertIn("application/json", html["detail"])
        several = self.post("runs", [], 400)
        self.assertEqual(several["errors"][0]["pointer"], "/")

    def test_a_program_comes_to_whoever_accepts_its_kind(self) -> None:
        for accepted in ("text/x-python, application/problem+json", "text/html"):
            response = self.client.get("/api/v1/lint.py", headers={"accept": accepted})
            self.assertEqual(response.status_code, 200)
            self.assertIn("text/x-python", response["Content-Type"])

    def test_a_problem_speaks_the_readers_language(self) -> None:
        path = "records/NAN-7777"
        zh = self.get(path, 404, **{"accept-language": "zh-CN"})
        self.assertNotEqual(zh["title"], self.get(path, 404)["title"])


class LookupApiTest(ApiTest):
    def test_a_pasted_line_finds_the_record(self) -> None:
        sentence = "UserWarning: cuDNN SDPA backward got grad_output.strides() != out"
        self.record.signatures = [{"kind": "message", "text": sentence}]
        saving.save(self.record)
        body = self.post("lookup", {"log": f"a.py:7: {sentence}"}, 200)
        self.assertEqual(
            list(body),
            [
                *("decision", "outcome", "facts", "laws", "candidates"),
                *("first_checks", "ruled_out", "symptoms", "affecting", "query"),
            ],
        )
        self.assertEqual(body["outcome"], "exact")
        self.assertEqual(body["candidates"][0]["record"], "NAN-9001")
        in_zh = self.post("lookup", {"log": sentence, "lang": "zh"}, 200)
        self.assertEqual(in_zh["candidates"][0]["title"], "一个样例")
        self.assertTrue(in_zh["candidates"][0]["urls"]["html"].startswith("/zh/"))
        self.assertEqual(list(in_zh), [*body, "lang_used"])

    def test_refusals(self) -> None:
        for sent, code, status in [
            ({"log": ""}, "empty_paste", 422),
            ({"log": "\x01\x02\x03nan"}, "invalid_values", 422),
            ({"log": 7}, "invalid", 400),
            ({"log": "x", "lang": "fr"}, "invalid", 400),
            ({"log": "x" * 1_100_000}, "too_large", 413),
            ({"log": "x", "parts": [{"kind": "poem"}]}, "invalid", 400),
            ([], "invalid", 400),
        ]:
            with self.subTest(code):
                self.assert_problem(self.post("lookup", sent, status), code, status)

    def test_a_part_is_read_as_the_client_says(self) -> None:
        part = {"kind": "code", "first": 1, "last": 1}
        body = self.post("lookup", {"log": "loss: nan", "parts": [part]}, 200)
        self.assertEqual(body["query"]["parts"], [part])
        self.assertEqual(body["query"]["facets"], [])

    def test_an_environment_without_a_log(self) -> None:
        self.record.affected = [{"package": "torch", "events": [{"introduced": "2.4"}]}]
        saving.save(self.record)
        path = f"records/{self.record.pk}/affected"
        body = self.post(path, {"env": "torch==2.5.1", "lang": "zh"}, 200)
        self.assertEqual(list(body), ["record", "env", "affected", "lang_used"])
        self.assertEqual(body["affected"]["answer"], "affected")
        self.assert_problem(self.post(path, {"env": " "}, 422), "empty_paste", 422)
        all_of_it = self.post("lookup", {"env": "torch==2.5.1"}, 200)
        ((row,),) = (group["records"] for group in all_of_it["affecting"])
        self.assertEqual(row["record"], self.record.pk)
        nowhere = self.post("records/NAN-7777/affected", {"env": "torch==2.5.1"}, 404)
        self.assert_problem(nowhere, "unknown_record", 404)

    def test_bodies_that_are_no_json(self) -> None:
        for sent in (b"\xff", b"{", b'{"log": NaN}', b"[" * 100_000, b"9" * 4000):
            with self.subTest(sent[:9]):
                response = self.client.post(
                    "/api/v1/lookup", sent, content_type="application/json"
                )
                self.assertEqual(response.status_code, 400)
                self.assert_problem(response.json(), response.json()["code"], 400)

    def test_a_paste_with_nul_and_a_lone_surrogate_is_answered(self) -> None:
        body = self.post("lookup", {"log": "loss: nan \x00 \ud800"}, 200)
        self.assertIn(body["outcome"], ("none", "possible"))
        for sent in ({"log": "x", "\ud800": 1}, {"log": "x", "lang": "\ud800"}):
            body = self.post("lookup", sent, 400)
            self.assertIn("\ud800", body["detail"])

    def test_whoever_is_logged_in_asks_like_anybody(self) -> None:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(User.objects.create_user("ann"))
        browser.get("/en/captures/")
        token = browser.cookies["csrftoken"].value
        for path, sent in (("lookup", {"log": "loss: nan"}), ("captures", example())):
            answer = browser.post(
                f"/api/v1/{path}",
                sent,
                content_type="application/json",
                headers={"X-CSRFToken": token},
            )
            self.assertLess(answer.status_code, 500, answer.content)


class ConventionsTest(ApiTest):
    def test_the_address_of_the_api_says_where_everything_is(self) -> None:
        body = self.get("")
        for path in body["links"].values():
            answered = self.client.get(path)
            self.assertNotIn(b'"code":"not_found"', answered.content, path)
            self.assertNotEqual(answered.status_code, 500, path)
        self.assertRedirects(
            self.client.get("/api/"), "/api/v1/", fetch_redirect_response=False
        )

    def test_records_that_changed_since(self) -> None:
        changed = self.get("records/NAN-9001")["modified_at"]
        for path in ("records", "records?q=sample"):
            sign = "&" if "?" in path else "?"
            for since, count in ((changed, 1), ("2999-01-01T00:00:00Z", 0)):
                found = self.get(f"{path}{sign}modified_since={since}")["items"]
                self.assertEqual(len(found), count, (path, since))

    def test_an_empty_parameter_is_a_value_like_any_other(self) -> None:
        for path in (
            "records?lang=",
            "runs?state=",
            "records?limit=",
            "records?build=",
        ):
            self.assert_problem(self.get(path, 400), "invalid", 400)

    def test_a_long_address_is_a_problem_of_its_own(self) -> None:
        body = self.get(f"records?q={'x' * 5000}", 414)
        self.assert_problem(body, "address_too_long", 414)


class RunApiTest(ApiTest):
    def setUp(self) -> None:
        runs.install_stand_in(self)

    def submit(self, status: int, **fields: Any) -> Any:
        body = {"record": "NAN-9001", "build": runs.SLUG, **fields}
        return self.post("runs", body, status)

    def test_a_run_is_submitted_joined_and_shown(self) -> None:
        first = self.submit(202)
        self.assertEqual(list(first), RUN_KEYS)
        self.assertEqual((first["state"], first["verdict"]), ("queued", None))
        second = self.submit(202)
        self.assertEqual((second["id"], second["joined"]), (first["id"], True))
        self.assertEqual(self.get(f"runs/{first['id']}")["state"], "queued")
        self.assertEqual(len(self.get("runs?record=NAN-9001")["items"]), 1)

    def test_a_finished_run_carries_its_evidence(self) -> None:
        run = Run.objects.get(id=self.submit(202)["id"])
        held = runs.claimed(run.queue, worker="w1")
        ledger.finish(held, runs.make_evidence(self.repro))
        body = self.get(f"runs/{run.id}")
        self.assertEqual(body["verdict"], "bug_present")
        self.assertEqual((body["hits"], body["trials"]), (1, 1))
        self.assertIs(body["is_affected"], True)
        self.assertIn("is affected", body["sentence"]["en"])
        self.assertIn("受影响", body["sentence"]["zh"])
        names = [check["name"] for check in body["checks"]]
        self.assertIn("trigger", names)
        stored = self.get(f"evidence/{body['evidence']}")
        self.assertEqual(harness.evidence_digest(stored), body["evidence"])
        cached = self.submit(200)
        self.assertEqual((cached["id"], cached["cached"]), (str(run.id), True))
        self.assertNotEqual(self.submit(202, again=True)["id"], str(run.id))

    def test_cancel_and_log(self) -> None:
        run = self.submit(202)
        log = self.get(f"runs/{run['id']}/log?after=0")
        self.assertEqual(log, {"lines": [], "next": 0, "end": False})
        self.post(f"runs/{run['id']}/cancel", {}, 202)
        self.assertEqual(self.get(f"runs/{run['id']}")["state"], "cancelled")
        body = self.post(f"runs/{run['id']}/cancel", {}, 409)
        self.assert_problem(body, "run_over", 409)
        self.assertTrue(self.get(f"runs/{run['id']}/log")["end"])
        for after in ("-1", "x", "²", "9" * 4000):
            body = self.get(f"runs/{run['id']}/log?after={after}", 400)
            self.assert_problem(body, "invalid", 400)

    def test_refusals(self) -> None:
        runs.make_build("1.0.0-cpu", "1.0.0")
        for fields, code, status in [
            ({"build": "0.0.0-none"}, "unknown_build", 404),
            ({"build": "1.0.0-cpu"}, "run_refused", 409),
            ({"device": "cuda"}, "run_refused", 409),
            ({"record": "NAN-7777"}, "unknown_record", 404),
            ({"repro": "nothing"}, "unknown_repro", 404),
            ({"trials": 0}, "invalid", 400),
            ({"source": "print(1)"}, "unknown_parameter", 400),
            ({"verdict": "bug_absent"}, "unknown_parameter", 400),
        ]:
            with self.subTest(fields):
                self.assert_problem(self.submit(status, **fields), code, status)
        self.assertEqual(Run.objects.count(), 0)

    def test_a_run_that_names_no_build_goes_to_the_default(self) -> None:
        body = self.post("runs", {"record": "NAN-9001"}, 202)
        self.assertEqual(body["build"], runs.SLUG)
        self.assertIsNone(body["urls"]["evidence"])
        self.assertEqual(self.get("")["default_build"], runs.SLUG)
        unknown = self.submit(404, build="2.1.0")
        self.assertIn(runs.SLUG, unknown["detail"])
        Run.objects.all().delete()
        Installation.objects.all().delete()
        body = self.post("runs", {"record": "NAN-9001"}, 404)
        self.assert_problem(body, "unknown_build", 404)
        self.assertIsNone(self.get("")["default_build"])

    def test_each_answer_says_how_many_runs_are_left(self) -> None:
        body = {"record": "NAN-9001"}
        for left in (settings.RUNS_PER_HOUR - 1, settings.RUNS_PER_HOUR - 1):
            response = self.client.post("/api/v1/runs", body, "application/json")
            policy = f'"runs";q={settings.RUNS_PER_HOUR};w=3600'
            self.assertEqual(response["RateLimit-Policy"], policy)
            # The second joins the first, which costs nothing.
            self.assertRegex(response["RateLimit"], rf'^"runs";r={left};t=\d+$')

    def test_a_full_queue_says_when_to_come_back(self) -> None:
        for number in range(settings.QUEUED_PER_REQUESTER):
            name = f"repro_{number}"
            runs.make_run(
                runs.make_repro(runs.source() + f"# {number}\n", name),
                requester="address:127.0.0.1",
            )
        body = {"record": "NAN-9001", "build": runs.SLUG}
        response = self.client.post("/api/v1/runs", body, "application/json")
        self.assert_problem(response.json(), "throttled", 429)
        self.assertGreater(int(response["Retry-After"]), 0)

    def test_behind_a_proxy_a_run_counts_for_whom_the_proxy_saw(self) -> None:
        forwarded = {"X-Forwarded-For": f"{'9' * 200}, 203.0.113.7"}
        body = json.dumps({"record": "NAN-9001", "build": runs.SLUG})
        for proxies, address in [(0, "127.0.0.1"), (1, "203.0.113.7")]:
            Run.objects.all().delete()
            with override_settings(REST_FRAMEWORK={"NUM_PROXIES": proxies}):
                path, kind = "/api/v1/runs", "application/json"
                self.client.post(path, body, kind, headers=forwarded)
            self.assertEqual(Run.objects.get().requester, f"address:{address}")

    @override_settings(RUNS_ANONYMOUS=False)
    def test_a_site_may_ask_for_a_login(self) -> None:
        self.assert_problem(self.submit(401), "unauthenticated", 401)

    def test_builds_workers_matrix_and_schema_answer(self) -> None:
        builds = self.get("builds")["items"]
        self.assertEqual(builds[0]["installations"][0]["state"], "ready")
        self.assertEqual(self.get("workers")["items"], [])
        ended = timezone.now() - 2 * fleet.WORKER_STALE
        for name, seen in [("a@here", timezone.now()), ("b@here", ended)]:
            Worker.objects.create(name=name, started_at=ended, last_seen=seen)
        online = [row["online"] for row in self.get("workers")["items"]]
        self.assertEqual(online, [True, False])
        store.add(runs.make_evidence(self.repro), origin="site")
        cells = self.get("records/NAN-9001/matrix")["cells"]
        self.assertEqual(cells[0]["verdict"], "bug_present")
        self.assertEqual(cells[0]["repro"], "repro")
        self.assertIn("/api/v1/lookup", self.get("openapi.json")["paths"])
