#!/usr/bin/env bash
# Checks what operators load: the dashboard's form, the rules with promtool, and that the metrics they name exist.
#
#   deploy/rules-check.sh            without the names
#   deploy/rules-check.sh NAMES      NAMES is a file with the name of a metric that exists on each line
#   RULES_CHECK=form                 without promtool
#
# promtool is taken from PATH, else built into .tools/bin once (three to four minutes on two cores). Where it is not here and cannot
# be built, this says what is not checked and ends with 0: that is the machine's lack, not the project's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=v0.316.0

say() { printf 'rules-check: %s\n' "$*"; }

check_form() {
    python3 - "$root" "${1:-}" <<'PYTHON'
import json, pathlib, re, sys

root, listed = pathlib.Path(sys.argv[1]), sys.argv[2]
rules = (root / "deploy/prometheus-rules.yaml").read_text()
tests = (root / "deploy/prometheus-rules-test.yaml").read_text()
dashboard = json.loads((root / "deploy/grafana-dashboard.json").read_text())
wrong = []

panels = dashboard["panels"]
graphs = [panel for panel in panels if panel["type"] != "row"]
ids = [panel["id"] for panel in panels]
wrong += [f"two panels have the id {id}" for id in sorted({id for id in ids if ids.count(id) > 1})]
for panel in panels:
    wrong += [] if panel.get("title") else [f"panel {panel['id']} has no title"]
for panel in graphs:
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
    wrong += [] if unit else [f"panel {panel.get('title')} has no unit"]
    wrong += [] if panel.get("targets") else [f"panel {panel.get('title')} shows nothing"]
variables = {variable["name"] for variable in dashboard["templating"]["list"]}
wrong += [f"the dashboard has no variable {name}" for name in {"datasource", "instance"} - variables]
exprs = [target["expr"] for panel in graphs for target in panel["targets"]]
queries = [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]

alerts = re.findall(r"- alert: (\w+)", rules)
wrong += [f"no test names the alert {alert}" for alert in alerts if alert not in tests]
for part in re.split(r"\n      - (?=alert: )", rules)[1:]:
    wrong += [f"{part.split()[1]} has no {need}" for need in ("severity:", "summary:", "description:", "runbook:") if need not in part]
for path, anchor in set(re.findall(r"runbook: (docs/\S+?\.md)#(\S+)", rules)):
    heads = re.findall(r"^#+ (.*)$", (root / path).read_text(), re.M)
    slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    wrong += [] if anchor in slugs else [f"{path} has no section #{anchor}"]

recorded = set(re.findall(r"- record: (\S+)", rules))
used = set(re.findall(r"(?<![\w:])job\w*:[\w:]+", "\n".join(exprs)))
wrong += [f"the dashboard uses {name}, which no rule records" for name in sorted(used - recorded)]

if listed:
    names = set(pathlib.Path(listed).read_text().split())
    known = names | {name + end for name in names for end in ("_total", "_bucket", "_sum", "_count", "_info")}
    for where, text in {
        "prometheus-rules.yaml": rules,
        "prometheus-rules-test.yaml": tests,
        "grafana-dashboard.json": "\n".join(exprs + queries),
    }.items():
        named = set(re.findall(r"(?<![\w:])nearside_\w+(?![\w:])", text))
        wrong += [f"{where} names {name}, which does not exist" for name in sorted(named - known)]

for line in wrong:
    print(f"rules-check: WRONG: {line}")
print(f"rules-check: {len(alerts)} alerts, {len(recorded)} recorded, {len(graphs)} panels, {len(wrong)} errors")
sys.exit(bool(wrong))
PYTHON
}

# The tags leave out what only a server needs: clients of clouds, of which some modules are not to be had everywhere.
build_promtool() {
    say "building promtool $version into .tools/bin"
    local started=$SECONDS
    GOBIN=$root/.tools/bin timeout 1800 nice -n 15 go install -p 2 -tags netgo,builtinassets,remove_all_sd \
        "github.com/prometheus/prometheus/cmd/promtool@$version" >"$root/.tools/promtool.log" 2>&1 || return 1
    say "built promtool in $((SECONDS - started)) s"
}

if command -v python3 >/dev/null; then
    [ -n "${1:-}" ] || say "no list of names was given: whether the metrics exist is NOT checked"
    check_form "${1:-}"
else
    say "there is no python3: the dashboard and the names of metrics are NOT checked"
fi

if [ "${RULES_CHECK:-}" = form ]; then exit 0; fi
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
    promtool=$root/.tools/bin/promtool
    mkdir -p "$root/.tools"
    if [ ! -x "$promtool" ] && ! command -v go >/dev/null; then
        say "there is neither promtool nor Go: the rules' syntax and their unit tests are NOT checked"
        exit 0
    elif [ ! -x "$promtool" ] && ! build_promtool; then
        tail -n 3 "$root/.tools/promtool.log"
        say "promtool could not be built: the rules' syntax and their unit tests are NOT checked"
        exit 0
    fi
fi
"$promtool" check rules "$root/deploy/prometheus-rules.yaml"
"$promtool" test rules "$root/deploy/prometheus-rules-test.yaml"
