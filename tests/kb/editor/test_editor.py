"""Records edited on the site: facts as fields, checks of files, who may, and back."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.test import TestCase

from kb.editor.tables import FORMS, table
from kb.models import Record
from kb.publishing import editing
from tests.support import loaded, runs

PAGE = "/en/NAN-9001/sample/"
EDIT = "/en/NAN-9001/edit/"


def sent(form: Any) -> dict[str, str]:
    """The form's values as a browser would send them back."""
    rows = [row for table in form.tables.values() for row in table]
    management = [table.management_form for table in form.tables.values()]
    fields = [field for one in (form, *rows, *management) for field in one]
    values = {field.html_name: field.value() for field in fields}
    return {
        name: str(value)
        for name, value in values.items()
        if value not in (None, "") and value is not False
    }


def said_in(answer: Any) -> list[Any]:
    """What a form that came back says is wrong."""
    form = (answer.context or {}).get("form")
    rows = [row for table in form.tables.values() for row in table] if form else []
    return [one.errors for one in (form, *rows) if form and one.errors]


class EditorCase(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()

    def become(self, group: str) -> None:
        user = User.objects.create_user(group)
        user.groups.add(Group.objects.get(name=group))
        self.client.force_login(user)

    def form(self, path: str = EDIT, **changes: str) -> dict[str, str]:
        values = sent(self.client.get(path).context["form"])
        return {**values, **changes}

    def post(self, status: int = 200, **changes: str) -> str:
        answer = self.client.post(EDIT, self.form(**changes), follow=True)
        self.assertEqual(answer.status_code, status, said_in(answer))
        return answer.text

    def stored(self) -> Record:
        return Record.objects.get(pk="NAN-9001")


class PermissionTests(EditorCase):
    def test_strangers_log_in_and_readers_may_not(self) -> None:
        answer = self.client.get(EDIT)
        self.assertEqual(answer.headers["Location"], f"/en/login/?next={EDIT}")
        self.assertNotIn(EDIT, self.client.get(PAGE).text)
        self.become("runner")
        for method in (self.client.get, self.client.post):
            self.assertEqual(method(EDIT).status_code, 403)
        preview = self.client.post(f"{EDIT}preview/", {"fix_en": "x"})
        self.assertEqual(preview.status_code, 403)
        self.assertNotIn(EDIT, self.client.get(PAGE).text)

    def test_editors_find_the_way_on_the_record(self) -> None:
        self.become("editor")
        self.assertIn(EDIT, self.client.get(PAGE).text)
        page = self.client.get(EDIT)
        self.assertEqual(page.status_code, 200)
        self.assertNotIn("[{", page.text)
        self.assertEqual(self.client.get("/en/NAN-9999/edit/").status_code, 404)


class EditTests(EditorCase):
    def setUp(self) -> None:
        self.become("editor")

    def test_what_is_sent_back_unchanged_is_no_revision(self) -> None:
        html = self.post()
        self.assertIn("Nothing changed, so there is no new revision.", html)
        self.assertEqual(self.stored().revision, 1)

    def test_a_save_leads_to_the_record_and_says_so(self) -> None:
        form = self.form(fix_en="Upgrade.", reason="Shorter")
        answer = self.client.post(EDIT, form, follow=True)
        self.assertEqual(answer.redirect_chain, [(PAGE, 302)])
        for said in ("Revision 2 is saved.", "Upgrade.", "says revision 1, should"):
            self.assertIn(said, answer.text)
        self.assertIn("(Shorter)", self.client.get(f"{PAGE}?history=1").text)

    def test_facts_are_fields_and_rows_come_and_go(self) -> None:
        self.post(
            **{
                "affected-0-events": "introduced 2.10.0\r\nfixed 2.15.0",
                "affected-0-builds": "",
                "preconditions-0-DELETE": "on",
                "sources-1-id": "s-2",
                "sources-1-kind": "docs",
                "sources-1-url": "https://example.org/2",
                "sources-1-title": "The manual",
                "components": "sdpa\r\nautograd",
            }
        )
        record = self.stored()
        self.assertEqual(record.revision, 2)
        events = [{"introduced": "2.10.0"}, {"fixed": "2.15.0"}]
        self.assertEqual(
            record.affected, [{"package": "torch", "events": events, "source": "s-1"}]
        )
        self.assertEqual(record.preconditions, [])
        self.assertEqual([row["id"] for row in record.sources], ["s-1", "s-2"])
        self.assertNotIn("note", record.sources[1])
        self.assertEqual(record.components, ["sdpa", "autograd"])

    def test_what_files_refuse_stands_at_its_field_and_nothing_is_saved(self) -> None:
        changes = {
            "sources-0-url": "nowhere",
            "affected-0-events": "fixed 2.0\nfixed 2.1",
            "preconditions-0-text_zh": "English only",
            "title_zh": "",
            "fix_en": "## A heading",
        }
        answer = self.client.post(EDIT, self.form(**changes))
        self.assertEqual(answer.status_code, 422)
        form = answer.context["form"]
        for column, name in (
            ("sources", "url"),
            ("affected", "events"),
            ("preconditions", "text_zh"),
        ):
            with self.subTest(column):
                self.assertTrue(form.tables[column][0].errors[name])
        self.assertTrue(form.errors["title_zh"])
        self.assertIn("nowhere", answer.text)
        self.assertEqual(self.stored().revision, 1)

    def test_a_row_of_a_kept_table_is_found_after_one_that_was_taken_out(self) -> None:
        changes = {
            "sources-0-DELETE": "on",
            "sources-1-id": "s-1",
            "sources-1-kind": "report",
            "sources-1-title": "Another",
        }
        answer = self.client.post(EDIT, self.form(**changes))
        rows = answer.context["form"].tables["sources"]
        self.assertFalse(rows[0].errors)
        self.assertTrue(rows[1].errors["url"])

    def test_another_row_is_made_without_saving_or_a_script(self) -> None:
        html = self.post(fix_en="Typed.", more="sources")
        self.assertIn('name="sources-2-id"', html)
        self.assertIn("Typed.", html)
        self.assertEqual(self.stored().revision, 1)

    def test_a_draft_of_the_browser_comes_back_as_it_was(self) -> None:
        html = self.post(draft="1", fix_en="From a draft.")
        self.assertIn("From a draft.", html)
        self.assertEqual(self.stored().revision, 1)

    def test_two_editors_do_not_overwrite_each_other(self) -> None:
        first, second = self.form(fix_en="First."), self.form(fix_en="Second.")
        self.client.post(EDIT, first)
        answer = self.client.post(EDIT, second)
        self.assertIn("Revision 2 was saved while you edited revision 1", answer.text)
        self.assertIn("Second.", answer.text)
        self.assertEqual(self.stored().fix_en, "First.")

    def test_the_preview_shows_prose_and_stores_nothing(self) -> None:
        form = self.form(fix_en="A **root** fix.")
        html = self.client.post(f"{EDIT}preview/", form).text
        self.assertIn("<strong>root</strong>", html)
        self.assertEqual(self.stored().revision, 1)

    def test_what_becomes_a_draft_has_no_page_to_lead_to(self) -> None:
        answer = self.client.post(EDIT, self.form(publication="draft"))
        self.assertRedirects(answer, EDIT)


class BringBackTests(EditorCase):
    def setUp(self) -> None:
        self.become("editor")
        self.first = self.stored().history.latest()

    def test_an_old_revision_becomes_the_newest_and_the_rest_stays(self) -> None:
        self.post(fix_en="Later.", components="other")
        self.post(
            publication="withdrawn",
            withdrawn_because_en="A mistake.",
            withdrawn_because_zh="有误。",
        )
        before = self.stored()
        place = f"{EDIT}?revision={self.first.history_id}"
        self.assertIn(place, self.client.get(f"{PAGE}?history=1").text)
        self.assertIn("This is revision 1", self.client.get(place).text)
        self.client.post(EDIT, self.form(place))
        record = self.stored()
        self.assertEqual(record.revision, 4)
        self.assertEqual(record.fix_en, self.first.fix_en)
        self.assertEqual(record.components, ["sdpa"])
        for kept in ("slug", "publication", "withdrawn_because_en", "files_digest"):
            self.assertEqual(getattr(record, kept), getattr(before, kept), kept)

    def test_there_is_no_other_records_revision(self) -> None:
        other = runs.make_record("NAN-9002").history.latest()
        for number in (str(other.history_id), "x", "0"):
            place = f"{EDIT}?revision={number}"
            self.assertEqual(self.client.get(place).status_code, 404)


class ShippedTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_every_shipped_fact_survives_its_fields(self) -> None:
        for record in Record.objects.all():
            for column, form in FORMS.items():
                rows = getattr(record, column)
                fields = [
                    field
                    for row in table(column, rows)
                    for field in row.visible_fields()
                ]
                data = {field.html_name: field.value() or "" for field in fields}
                data |= {
                    f"{column}-TOTAL_FORMS": str(len(rows) + 1),
                    f"{column}-INITIAL_FORMS": str(len(rows)),
                }
                again = table(column, [], data)
                self.assertTrue(again.is_valid(), (record.id, again.errors))
                kept = [row.row() for row in again if not row.is_gone]
                wanted = [{key: row.get(key) for key in form.keys} for row in rows]
                found = [{key: row.get(key) for key in form.keys} for row in kept]
                self.assertEqual(found, wanted, record.id)

    def test_code_is_the_repros_whatever_a_form_or_an_old_revision_says(self) -> None:
        record = Record.objects.get(pk="NAN-0002")
        code = record.workarounds[0]["apply"]
        self.assertIn("def apply_", code)
        record.workarounds[0]["apply"] = "something else"
        del record.diagnoses[0]["code"]
        editing.keep_code(record)
        self.assertEqual(record.workarounds[0]["apply"], code)
        self.assertIn("def diagnose_", record.diagnoses[0]["code"])
