BEGIN TRANSACTION;
CREATE TABLE counted (kind TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "counted" VALUES('call',1);
INSERT INTO "counted" VALUES('lease',0);
CREATE TABLE handed_out (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, step INTEGER NOT NULL, call_id TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (run, key));
CREATE TABLE held (key BLOB NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (key, run, step)) WITHOUT ROWID;
INSERT INTO "held" VALUES(X'63616C6C0077616974733A303A6164333332643737353531343A6100',2,0);
INSERT INTO "held" VALUES(X'64656369646564006465636973696F6E3A6261663038623931393236336538373363313065333939363161366663653633653562306433643966646362313533383039326663353637343165386137316100',2,0);
CREATE TABLE inbox (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, id TEXT NOT NULL, entry BLOB NOT NULL, UNIQUE (run, id));
INSERT INTO "inbox" VALUES(1,2,'0199bc3e9cca4006bb2182da7ac45ff7',CAST('{"kind":"say","message":"And?","when":"next","marked":[]}' AS BLOB));
CREATE TABLE records (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, rev INTEGER NOT NULL, stale_at REAL, boot TEXT, drop_at REAL);
INSERT INTO "records" VALUES(2,'call',X'63616C6C0077616974733A303A6164333332643737353531343A6100',CAST('{"fingerprint":"c32b54dfccb8a2b56fc2860dee890d80a31a4b71bab48d5568f1b97934f71bdf","claimed_at":1796020274.5823634,"host":"h","pid":1,"boot":"b","start":"s","end":"kept"}
{"value":"paid"}' AS BLOB),6677037891501498363,NULL,NULL,9e999);
CREATE TABLE responses (run INTEGER NOT NULL, step INTEGER NOT NULL, facts BLOB NOT NULL, body BLOB NOT NULL, ends BLOB, PRIMARY KEY (run, step));
INSERT INTO "responses" VALUES(1,0,CAST('{"kind":"bytes","salt":1,"attempt":1,"broken":false,"traceparent":null,"proposed_by":null,"said":[]}' AS BLOB),CAST('data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

' AS BLOB),CAST('{"observations":[],"calls":0,"tokens":0}' AS BLOB));
INSERT INTO "responses" VALUES(2,0,CAST('{"kind":"bytes","salt":1,"attempt":1,"broken":false,"traceparent":null,"proposed_by":null,"said":[]}' AS BLOB),CAST('data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"pay","arguments":""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"to\": \"x\"}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"r","type":"function","function":{"name":"refund","arguments":""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"to\": \"x\"}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

' AS BLOB),NULL);
CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, first TEXT NOT NULL, name TEXT, began_at REAL NOT NULL, ended_at REAL, outcome TEXT);
INSERT INTO "runs" VALUES(1,'done','220858929fb8ab6d19b9b72a03b9417ec8df12c96c909db495f0bb80fdad0a39',NULL,1.7960202745206849575e+09,1.79602027455678105354e+09,'answered');
INSERT INTO "runs" VALUES(2,'waits','220858929fb8ab6d19b9b72a03b9417ec8df12c96c909db495f0bb80fdad0a39',NULL,1.79602027456252384186e+09,1796020274.58697,'suspended');
CREATE TABLE waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, step INTEGER NOT NULL, call_id TEXT NOT NULL, fingerprint TEXT NOT NULL, key TEXT NOT NULL, entry BLOB NOT NULL, is_over INTEGER NOT NULL DEFAULT 0, UNIQUE (run, key, fingerprint));
INSERT INTO "waiting" VALUES(1,2,0,'r','e39553029ff5c7d93911f6495ed2c7b5197d24d82a2d91d2331376ec1bd8277f','waits:0:ad332d775514:r',CAST('{"calls": [{"call_id": "r", "tool_name": "refund", "kind": "function", "arguments_text": "{\"to\":\"x\"}", "fingerprint": "e39553029ff5c7d93911f6495ed2c7b5197d24d82a2d91d2331376ec1bd8277f", "idempotency_key": "waits:0:ad332d775514:r", "index": 1, "namespace": null, "awaits": null, "caller": "direct", "findings": [], "approvals": 1, "waits_for": "approval", "edited_text": null}], "run_id": "waits", "step": 0, "seq": 15, "wire": "openai.chat_completions", "traceparent": null, "proposed_by": null, "calls_spent": 1, "tokens_spent": 0, "journal": null}' AS BLOB),0);
CREATE INDEX droppable ON records (kind, drop_at) WHERE drop_at IS NOT NULL;
CREATE TRIGGER record_added AFTER INSERT ON records BEGIN INSERT INTO counted VALUES (NEW.kind, 1) ON CONFLICT (kind) DO UPDATE SET records = records + 1; END;
CREATE TRIGGER record_deleted AFTER DELETE ON records BEGIN UPDATE counted SET records = records - 1 WHERE kind = OLD.kind; END;
CREATE INDEX held_by ON held (run, step);
CREATE INDEX runs_of ON runs (outcome);
INSERT INTO "sqlite_sequence" VALUES('runs',2);
INSERT INTO "sqlite_sequence" VALUES('waiting',1);
INSERT INTO "sqlite_sequence" VALUES('inbox',1);
PRAGMA application_id=1937011572;
PRAGMA user_version=4;
COMMIT;