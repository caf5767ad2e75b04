BEGIN TRANSACTION;
CREATE TABLE entries (
	seq INTEGER NOT NULL,
	at_us BIGINT NOT NULL,
	kind TEXT NOT NULL,
	"key" TEXT NOT NULL,
	subject TEXT NOT NULL,
	body TEXT NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (kind, "key"),
	UNIQUE (at_us),
	UNIQUE (hash)
);
INSERT INTO "entries" VALUES(1,1772463900000000,'run','PAPER/1','PAPER','{"account":"PAPER","as_of":"2026-03-02T15:05:00Z","plan":"p1","revision":1}','709ebed382b25a06ee0b7a4160981c5ed87986d10ac0304e8d15a47c540ba1e3');
INSERT INTO "entries" VALUES(2,1772463900000001,'order','o1/1','o1','{"filled":"0","state":"sent"}','28fb917b6f518dff2274266eb0ec2203005320a5b0f204013890bfdbd90c7298');
INSERT INTO "entries" VALUES(3,1772463900000002,'order','o1/2','o1','{"filled":"5","message":"100 \u20ac","price":"101.25","state":"filled"}','0a57131c9401c14a4e07c393bd1bf73eb6613d97c4d9082a5a696c6ddf01eb0d');
CREATE TABLE ledger_version (
	version INTEGER NOT NULL
);
INSERT INTO "ledger_version" VALUES(1);
CREATE INDEX entries_by_subject ON entries (kind, subject, seq);
CREATE TRIGGER entries_no_update before update on entries begin select raise(abort, 'entries is append-only'); end;
CREATE TRIGGER entries_no_delete before delete on entries begin select raise(abort, 'entries is append-only'); end;
CREATE VIEW plans as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."id"') as "id", json_extract(body, '$."revision"') as "revision", json_extract(body, '$."parent"') as "parent", json_extract(body, '$."objective"') as "objective", json_extract(body, '$."mandate_hash"') as "mandate_hash", json_extract(body, '$."hash"') as "hash" from entries where kind = 'plan';
CREATE VIEW runs as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."plan"') as "plan", json_extract(body, '$."revision"') as "revision", json_extract(body, '$."account"') as "account", json_extract(body, '$."broker"') as "broker", json_extract(body, '$."as_of"') as "as_of", json_extract(body, '$."dry_run"') as "dry_run" from entries where kind = 'run';
CREATE VIEW outcomes as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."state"') as "state", json_extract(body, '$."message"') as "message" from entries where kind = 'outcome';
CREATE VIEW steps as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."step"') as "step", json_extract(body, '$."tool"') as "tool", json_extract(body, '$."state"') as "state", json_extract(body, '$."result"') as "result", json_extract(body, '$."message"') as "message" from entries where kind = 'step';
CREATE VIEW results as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."kind"') as "kind", json_extract(body, '$."as_of"') as "as_of", json_extract(body, '$."expires_at"') as "expires_at", json_extract(body, '$."snapshot"') as "snapshot" from entries where kind = 'result';
CREATE VIEW verdicts as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."plan"') as "plan", json_extract(body, '$."revision"') as "revision", json_extract(body, '$."approved"') as "approved", json_extract(body, '$."proposal_hash"') as "proposal_hash" from entries where kind = 'verdict';
CREATE VIEW intents as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."plan"') as "plan", json_extract(body, '$."revision"') as "revision", json_extract(body, '$."account"') as "account", json_extract(body, '$."symbol"') as "symbol", json_extract(body, '$."side"') as "side", json_extract(body, '$."quantity"') as "quantity", json_extract(body, '$."limit"') as "limit" from entries where kind = 'intent';
CREATE VIEW orders as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."state"') as "state", json_extract(body, '$."filled"') as "filled", json_extract(body, '$."price"') as "price", json_extract(body, '$."message"') as "message" from entries where kind = 'order';
CREATE VIEW fills as select seq, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at, "key", subject, json_extract(body, '$."order_ref"') as "order_ref", json_extract(body, '$."symbol"') as "symbol", json_extract(body, '$."side"') as "side", json_extract(body, '$."quantity"') as "quantity", json_extract(body, '$."price"') as "price", json_extract(body, '$."commission"') as "commission", json_extract(body, '$."at"') as "at" from entries where kind = 'fill';
COMMIT;
