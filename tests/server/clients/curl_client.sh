# A session of curl, with URL, READER and OPERATOR: prints what it saw, a part after each line of "== NAME".
set -eu
json() { curl -fsS -H "Authorization: Bearer $OPERATOR" -H "Content-Type: application/json" "$@"; }
part() { printf '\n== %s\n' "$1"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

ask='{"input": {"text": "what returns a fresh token?"}}'
RUN=$(curl -fsS "$URL/api/runs" -H "Authorization: Bearer $READER" -H "Content-Type: application/json" -d "$ask" |
  field run_id)
part question
curl -fsSN "$URL/api/runs/$RUN/events" -H "Authorization: Bearer $READER"
part reconnect
curl -fsSN "$URL/api/runs/$RUN/events" -H "Authorization: Bearer $READER" -H "Last-Event-ID: 1-0"
part nothing_more
LAST=$(curl -fsSN "$URL/api/runs/$RUN/events" -H "Authorization: Bearer $READER" | sed -n 's/^id: //p' | tail -n 1)
curl -sS -o /dev/null -w '%{http_code}' "$URL/api/runs/$RUN/events" -H "Authorization: Bearer $READER" \
  -H "Last-Event-ID: $LAST"

WRITER=$(json "$URL/api/runs" -d '{"graph": "event_loop", "agent": "writer"}' | field run_id)
part interrupt
# Its stream goes on when somebody has decided, and curl leaves at the question.
(json -N "$URL/api/runs/$WRITER/events" 2>/dev/null || true) | sed '/"interrupt"/q'
part pending
json "$URL/api/approvals?status=pending"
ASKED=$(json "$URL/api/approvals?status=pending" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])')
part decided
json "$URL/api/approvals/$ASKED/decide" -d '{"verb": "respond", "message": "the second"}'
part resumed
json -N "$URL/api/runs/$WRITER/events"

SLEEPER=$(json "$URL/api/runs" -d '{"graph": "event_loop", "agent": "sleeper"}' | field run_id)
part cancelled
json -X POST "$URL/api/runs/$SLEEPER/stop" >/dev/null
json -N "$URL/api/runs/$SLEEPER/events"
