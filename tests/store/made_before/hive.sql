BEGIN TRANSACTION;
CREATE TABLE agent_versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        version INTEGER NOT NULL,
        hash TEXT NOT NULL,
        text TEXT NOT NULL,
        at TEXT NOT NULL,
        by TEXT NOT NULL,
        authn TEXT NOT NULL,
        decision TEXT NOT NULL,
        via TEXT NOT NULL,
        reason TEXT,
        evaluation TEXT
    );
INSERT INTO "agent_versions" VALUES(1,'digest',1,'2906a87d606bc4cba9379ba68ffceed9c3f6ce2a787daa2132cebdee00b8cd4f','{
  "id": "digest",
  "version": 1,
  "mode": "continuous",
  "identity": "",
  "goal": "digest",
  "entry": "answer",
  "nodes": [
    {
      "id": "answer",
      "system_prompt": "Topic: $topic. You know: .",
      "input_keys": [
        "topic"
      ],
      "output_keys": [
        "text"
      ],
      "nullable_output_keys": [],
      "tools": [],
      "sub_agents": [],
      "success_criteria": null,
      "judge": null,
      "max_iterations": 4,
      "max_tool_calls": 100,
      "requires_approval": false,
      "pause_before": false,
      "client_facing": false
    }
  ],
  "edges": [],
  "pause_nodes": [],
  "tool_policy": [
    {
      "match": "*",
      "decision": "allow"
    }
  ],
  "model": null,
  "capability": "can_handle"
}
','2026-11-22T13:01:17+00:00','user:dana','local','first','deploy',NULL,'{"goal_hash": "d1f6a3a599dedb323851fc4f86ec2d86d7f2e5c373e0710099da9e198e4d23b1"}');
INSERT INTO "agent_versions" VALUES(2,'digest',2,'ee4971bb3ffe3ffe1329288aa5c5c6d41499e348a9859b4bfce856438ba248c1','{
  "id": "digest",
  "version": 2,
  "mode": "continuous",
  "identity": "",
  "goal": "digest",
  "entry": "answer",
  "nodes": [
    {
      "id": "answer",
      "system_prompt": "Topic: $topic. You know: ants bees lice.",
      "input_keys": [
        "topic"
      ],
      "output_keys": [
        "text"
      ],
      "nullable_output_keys": [],
      "tools": [],
      "sub_agents": [],
      "success_criteria": null,
      "judge": null,
      "max_iterations": 4,
      "max_tool_calls": 100,
      "requires_approval": false,
      "pause_before": false,
      "client_facing": false
    }
  ],
  "edges": [],
  "pause_nodes": [],
  "tool_policy": [
    {
      "match": "*",
      "decision": "allow"
    }
  ],
  "model": null,
  "capability": "can_handle"
}
','2026-11-22T13:01:19+00:00','user:kim','local','passed','approval','knows more','{"n": 3, "wins": 3, "losses": 0, "ties": 0, "p_value": 0.125, "alpha": 0.125, "test": "exact one-sided sign test", "candidate": {"passed": 3, "tokens": 300, "usd": 0.0}, "current": {"passed": 0, "tokens": 300, "usd": 0.0}, "cases": [{"id": "ants", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}, {"id": "bees", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}, {"id": "lice", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}], "decision": "passed", "reasons": [], "goal_hash": "d1f6a3a599dedb323851fc4f86ec2d86d7f2e5c373e0710099da9e198e4d23b1", "approval_id": "ac60e7727b4"}');
INSERT INTO "agent_versions" VALUES(3,'digest',1,'2906a87d606bc4cba9379ba68ffceed9c3f6ce2a787daa2132cebdee00b8cd4f','{
  "id": "digest",
  "version": 1,
  "mode": "continuous",
  "identity": "",
  "goal": "digest",
  "entry": "answer",
  "nodes": [
    {
      "id": "answer",
      "system_prompt": "Topic: $topic. You know: .",
      "input_keys": [
        "topic"
      ],
      "output_keys": [
        "text"
      ],
      "nullable_output_keys": [],
      "tools": [],
      "sub_agents": [],
      "success_criteria": null,
      "judge": null,
      "max_iterations": 4,
      "max_tool_calls": 100,
      "requires_approval": false,
      "pause_before": false,
      "client_facing": false
    }
  ],
  "edges": [],
  "pause_nodes": [],
  "tool_policy": [
    {
      "match": "*",
      "decision": "allow"
    }
  ],
  "model": null,
  "capability": "can_handle"
}
','2026-11-22T13:01:19+00:00','user:dana','local','rollback','rollback','not yet','{"goal_hash": "d1f6a3a599dedb323851fc4f86ec2d86d7f2e5c373e0710099da9e198e4d23b1"}');
CREATE TABLE answers (
        run_id TEXT PRIMARY KEY REFERENCES turns (run_id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        documents TEXT NOT NULL
    );
CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        title TEXT NOT NULL,
        requester TEXT NOT NULL,
        risk TEXT NOT NULL,
        created_at TEXT NOT NULL,
        due_at TEXT,
        remind_at TEXT,
        version INTEGER NOT NULL,
        content_hash TEXT NOT NULL,
        idempotency_key TEXT UNIQUE,
        run_id TEXT,
        thread_id TEXT,
        request TEXT NOT NULL,
        decisions TEXT NOT NULL
    );
INSERT INTO "approvals" VALUES('ac60e7727b4','local','deploy','approved','let version 2 of digest serve: passed','user:dana','medium','2026-11-22T13:01:19+00:00','2026-11-25T13:01:19+00:00','2026-11-23T13:01:19+00:00',1,'9d7ac0dcb871a23c3ff2a411f14b41d13ae50e89919ae5e51a370642b77cdd65','local/agent-version:digest:2:1',NULL,NULL,'{"on_behalf_of": null, "context": {"more": [], "agent": "digest", "version": 2, "hash": "ee4971bb3ffe3ffe1329288aa5c5c6d41499e348a9859b4bfce856438ba248c1", "base_hash": "2906a87d606bc4cba9379ba68ffceed9c3f6ce2a787daa2132cebdee00b8cd4f", "goal_hash": "d1f6a3a599dedb323851fc4f86ec2d86d7f2e5c373e0710099da9e198e4d23b1", "sub_agents": {"current": {}, "candidate": {}}, "reason": "knows more", "proposal": "agents/proposals/digest-v2.json", "evaluation": {"n": 3, "wins": 3, "losses": 0, "ties": 0, "p_value": 0.125, "alpha": 0.125, "test": "exact one-sided sign test", "candidate": {"passed": 3, "tokens": 300, "usd": 0.0}, "current": {"passed": 0, "tokens": 300, "usd": 0.0}, "cases": [{"id": "ants", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}, {"id": "bees", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}, {"id": "lice", "candidate": {"passed": true, "why": null, "violated": [], "tokens": 100, "usd": 0.0}, "current": {"passed": false, "why": "text is not as expected", "violated": [], "tokens": 100, "usd": 0.0}}], "decision": "passed", "reasons": []}}, "signals": [], "diff": {"json_patch": [{"op": "replace", "path": "/nodes/0/system_prompt", "value": "Topic: $topic. You know: ants bees lice."}], "before_hash": "2906a87d606bc4cba9379ba68ffceed9c3f6ce2a787daa2132cebdee00b8cd4f", "after_hash": "ee4971bb3ffe3ffe1329288aa5c5c6d41499e348a9859b4bfce856438ba248c1"}, "allowed_decisions": ["approve", "reject"], "args_schema": null, "approvers": {"min": 1, "exclude_requester": true}, "on_timeout": "escalate", "idempotency_key": "agent-version:digest:2:1", "delegations": [], "escalations": 0, "step": 2, "note": null, "outcome": {"deployed": "version 2 of digest", "version": 2}}','[{"verb": "approve", "by": "user:kim", "authn": "local", "at": "2026-11-22T13:01:19+00:00", "version": 1, "reason": null, "message": null, "args": null}]');
CREATE TABLE buffers (
        tenant TEXT NOT NULL,
        scope TEXT NOT NULL,
        scope_key TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        version INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (tenant, scope, scope_key, key)
    );
INSERT INTO "buffers" VALUES('local','execution','r5adcf72252','topic','"ants"',1,'2026-11-22T13:01:19+00:00');
INSERT INTO "buffers" VALUES('local','execution','r5adcf72252','text','"on ants"',1,'2026-11-22T13:01:19+00:00');
INSERT INTO "buffers" VALUES('local','global','','topic','{"name": "bees"}',1,'2026-11-22T13:01:19+00:00');
CREATE TABLE calibrations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        goal_type TEXT NOT NULL,
        status TEXT NOT NULL,
        threshold REAL,
        judge_hash TEXT NOT NULL,
        expires_at TEXT,
        certificate TEXT NOT NULL
    );
CREATE TABLE chunks (
        generation INTEGER NOT NULL,
        chunk INTEGER NOT NULL,
        chunk_id TEXT NOT NULL,
        document INTEGER NOT NULL,
        n INTEGER NOT NULL,
        heading TEXT NOT NULL,
        text TEXT NOT NULL,
        text_hash BLOB NOT NULL,
        tokens BLOB NOT NULL,
        PRIMARY KEY (generation, chunk)
    ) WITHOUT ROWID;
INSERT INTO "chunks" VALUES(1,0,'faqs/rotate-key.md#0',0,0,'[]','Open Settings, create a second key, deploy it, then revoke the first one.
',X'D991359492713D33F704CD9BEE9D39005D50861EC8FE35D6A583FC0F2672A966',X'000000000100000002000000030000000400000005000000060000000700000008000000090000000A0000000B0000000C000000');
INSERT INTO "chunks" VALUES(1,1,'guides/centrifuge.md#0',1,0,'[]','Place tubes of equal weight opposite each other.
',X'C4271769D628C82D8A5C471FE1F4BDCBEE37325F12C6359E1D4D5FB98243A8CC',X'130000001400000015000000160000001700000018000000190000001A000000');
CREATE TABLE compactions (
        conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id),
        n INTEGER NOT NULL,
        tier TEXT NOT NULL,
        lead TEXT,
        changes TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (conversation_id, n)
    );
CREATE TABLE config_versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        file TEXT NOT NULL,
        text TEXT NOT NULL,
        config_hash TEXT NOT NULL,
        at TEXT NOT NULL,
        by TEXT NOT NULL,
        authn TEXT NOT NULL,
        decision TEXT NOT NULL,
        via TEXT NOT NULL,
        reason TEXT,
        evaluation TEXT,
        previous INTEGER REFERENCES config_versions (id)
    );
INSERT INTO "config_versions" VALUES(1,'naive','configs/naive.json','{
 "name": "naive",
 "collection": "kb",
 "retrieval": {
  "method": "keyword",
  "top_k": 10,
  "rrf_k": 60
 },
 "bm25": {
  "k1": 1.2,
  "b": 0.75,
  "title_boost": 1.0
 }
}
','41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf','2026-11-22T13:01:15+00:00','user:dana','local','first','deploy',NULL,'{"n": 2, "split": null, "candidate": {"config": "naive", "nudcg": 1.0, "nudcg_clipped": 1.0, "udcg": 1.0, "ndcg": 1.0, "recall": 1.0, "precision": 0.1, "mrr": 1.0, "distractors": 0.0, "results": 1.0, "unjudged": null, "latency_ms_p50": 0.187, "latency_ms_p95": 0.419}, "active": null, "difference": null, "alpha": 0.05, "j": null, "evidence": "tuning_set", "watch": [], "accepted_tags": [], "needed_queries": null, "measurable": true, "golden": "evals/golden.json", "thresholds": {"alpha": 0.05, "tag_drop": 0.1, "tag_evidence": "proven", "latency_ratio": 1.5, "latency_floor_ms": 50.0, "unjudged": 0.2}, "certificate": {"config_hash": "41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf", "active_hash": null, "golden_hash": "22be7f5508b4269037786c42e814d98dcc90d7d95d767d8f4204a6900b88f9f1", "index_hash": "efeeb86051005fa8103c1c95bc7fe2c12a279cbf550ccfb17c6d9a040d015e86", "model": null, "access": null, "code": "0.1.0", "audit": {"entries": 1, "head": "bd9100f158724c260adb56d98c74c05ba1ba2e8346b193083d5523cee6c032d3"}, "at": "2026-11-22T13:01:15+00:00"}}',NULL);
INSERT INTO "config_versions" VALUES(2,'careful','configs/careful.json','{
 "name": "careful",
 "collection": "kb",
 "retrieval": {
  "method": "keyword",
  "top_k": 10,
  "rrf_k": 60
 },
 "bm25": {
  "k1": 1.2,
  "b": 0.75,
  "title_boost": 2.0
 }
}
','1befdd0045ce40d5ff40864e569ca2e2ebd06ab3f1bd0746a7a622c0fcd4e60d','2026-11-22T13:01:15+00:00','user:dana','local','inconclusive','deploy','titles say more','{"n": 2, "split": null, "candidate": {"config": "careful", "nudcg": 1.0, "nudcg_clipped": 1.0, "udcg": 1.0, "ndcg": 1.0, "recall": 1.0, "precision": 0.1, "mrr": 1.0, "distractors": 0.0, "results": 1.0, "unjudged": null, "latency_ms_p50": 0.165, "latency_ms_p95": 0.168}, "active": {"config": "naive", "nudcg": 1.0, "nudcg_clipped": 1.0, "udcg": 1.0, "ndcg": 1.0, "recall": 1.0, "precision": 0.1, "mrr": 1.0, "distractors": 0.0, "results": 1.0, "unjudged": null, "latency_ms_p50": 0.111, "latency_ms_p95": 0.116}, "difference": {"n": 2, "nudcg": 0.0, "ci95": [0.0, 0.0], "p_value": 1.0, "wins": 0, "losses": 0, "ties": 2, "mde": 0.0}, "alpha": 0.05, "j": null, "evidence": "tuning_set", "watch": [], "accepted_tags": [], "needed_queries": null, "measurable": false, "golden": "evals/golden.json", "thresholds": {"alpha": 0.05, "tag_drop": 0.1, "tag_evidence": "proven", "latency_ratio": 1.5, "latency_floor_ms": 50.0, "unjudged": 0.2}, "certificate": {"config_hash": "1befdd0045ce40d5ff40864e569ca2e2ebd06ab3f1bd0746a7a622c0fcd4e60d", "active_hash": "41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf", "golden_hash": "22be7f5508b4269037786c42e814d98dcc90d7d95d767d8f4204a6900b88f9f1", "index_hash": "efeeb86051005fa8103c1c95bc7fe2c12a279cbf550ccfb17c6d9a040d015e86", "model": null, "access": null, "code": "0.1.0", "audit": {"entries": 2, "head": "cfe7ebdfd4590245e2d5d2b57ac86da8e8d432499d10078cedf8f1f13cd6f94a"}, "at": "2026-11-22T13:01:15+00:00"}}',1);
INSERT INTO "config_versions" VALUES(3,'naive','configs/naive.json','{
 "name": "naive",
 "collection": "kb",
 "retrieval": {
  "method": "keyword",
  "top_k": 10,
  "rrf_k": 60
 },
 "bm25": {
  "k1": 1.2,
  "b": 0.75,
  "title_boost": 1.0
 }
}
','41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf','2026-11-22T13:01:15+00:00','user:dana','local','rollback','rollback','they did not','{"n": 2, "split": null, "candidate": {"config": "naive", "nudcg": 1.0, "nudcg_clipped": 1.0, "udcg": 1.0, "ndcg": 1.0, "recall": 1.0, "precision": 0.1, "mrr": 1.0, "distractors": 0.0, "results": 1.0, "unjudged": null, "latency_ms_p50": 0.187, "latency_ms_p95": 0.419}, "active": null, "difference": null, "alpha": 0.05, "j": null, "evidence": "tuning_set", "watch": [], "accepted_tags": [], "needed_queries": null, "measurable": true, "golden": "evals/golden.json", "thresholds": {"alpha": 0.05, "tag_drop": 0.1, "tag_evidence": "proven", "latency_ratio": 1.5, "latency_floor_ms": 50.0, "unjudged": 0.2}, "certificate": {"config_hash": "41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf", "active_hash": null, "golden_hash": "22be7f5508b4269037786c42e814d98dcc90d7d95d767d8f4204a6900b88f9f1", "index_hash": "efeeb86051005fa8103c1c95bc7fe2c12a279cbf550ccfb17c6d9a040d015e86", "model": null, "access": null, "code": "0.1.0", "audit": {"entries": 1, "head": "bd9100f158724c260adb56d98c74c05ba1ba2e8346b193083d5523cee6c032d3"}, "at": "2026-11-22T13:01:15+00:00"}}',NULL);
CREATE TABLE consumers (
        name TEXT PRIMARY KEY,
        seq INTEGER NOT NULL
    );
CREATE TABLE conversations (
        conversation_id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        node_id TEXT,
        key TEXT,
        created_at TEXT NOT NULL,
        UNIQUE (tenant, run_id, key)
    );
INSERT INTO "conversations" VALUES('c28cfdcb67cef','local','digest','r5adcf72252',NULL,'agent','2026-11-22T13:01:19+00:00');
INSERT INTO "conversations" VALUES('cb058961a15b0','local','digest','r5adcf72252','answer','node:answer#1','2026-11-22T13:01:19+00:00');
CREATE TABLE corpus_stats (
        generation INTEGER PRIMARY KEY AUTOINCREMENT,
        collection TEXT NOT NULL,
        state TEXT NOT NULL,
        schema TEXT NOT NULL,
        language TEXT NOT NULL,
        recipe TEXT NOT NULL,
        embedding_model TEXT,
        index_hash TEXT NOT NULL,
        n_documents INTEGER NOT NULL,
        n_chunks INTEGER NOT NULL,
        lengths BLOB NOT NULL,
        chunk_documents BLOB NOT NULL,
        created_at TEXT NOT NULL
    );
INSERT INTO "corpus_stats" VALUES(1,'kb','live','{"name":"kb","description":"","fields":{"title":{"type":"text","filterable":false,"synonyms":{}},"category":{"type":"keyword","filterable":true,"synonyms":{}},"content":{"type":"text","filterable":false,"synonyms":{}}},"chunking":{"strategy":"by_heading","max_tokens":512,"heading_level":2}}','english','0e9ca9605138eeb4243c0b50a53a9a89b6fc6e184258ef80d7d4e0121c23e5f9',NULL,'efeeb86051005fa8103c1c95bc7fe2c12a279cbf550ccfb17c6d9a040d015e86',2,2,X'140000000B000000',X'0000000001000000','2026-11-22T13:01:15+00:00');
CREATE TABLE cursors (
        conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id),
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (conversation_id, key)
    );
INSERT INTO "cursors" VALUES('cb058961a15b0','text','"on ants"','2026-11-22T13:01:19+00:00');
CREATE TABLE documents (
        generation INTEGER NOT NULL,
        document INTEGER NOT NULL,
        doc_id TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        title TEXT NOT NULL,
        metadata TEXT NOT NULL,
        front_matter TEXT NOT NULL,
        title_tokens BLOB NOT NULL,
        PRIMARY KEY (generation, document)
    ) WITHOUT ROWID;
INSERT INTO "documents" VALUES(1,0,'faqs/rotate-key.md','4d4b041673dce63a644ef9ef9e440e782d5f21e4f893dd730f22b9f258ec549b','How do I rotate an API key?','{"category": "faqs"}','{"title": "How do I rotate an API key?"}',X'0D0000000E0000000F00000010000000110000001200000005000000');
INSERT INTO "documents" VALUES(1,1,'guides/centrifuge.md','e502d08f63610dd5653cf63e3f143f5bd0ed5ecb967d7e40cc6c7f9f30cda01c','Balancing the centrifuge','{"category": "guides"}','{"title": "Balancing the centrifuge"}',X'1B0000000A0000001C000000');
CREATE TABLE drift (
        goal_type TEXT PRIMARY KEY,
        e_value REAL NOT NULL,
        alarmed_at TEXT
    );
CREATE TABLE effects (
        key TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        node_id TEXT,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 1,
        steps INTEGER NOT NULL DEFAULT 0,
        tool_calls INTEGER NOT NULL DEFAULT 0,
        tokens INTEGER NOT NULL DEFAULT 0,
        usd REAL NOT NULL DEFAULT 0,
        unpriced INTEGER NOT NULL DEFAULT 0,
        seconds REAL NOT NULL DEFAULT 0,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        ended INTEGER,
        mark TEXT,
        result TEXT
    );
INSERT INTO "effects" VALUES('r5adcf72252/answer#1/1/model','r5adcf72252','answer','model','told:model','done',1,1,0,100,0.0,0,2.64403000073798466473e-04,'2026-11-22T13:01:19+00:00','2026-11-22T13:01:19+00:00',0,NULL,'{"text": "", "calls": [{"name": "set_output", "args": {"key": "text", "value": "on ants"}, "id": "c1_0"}], "model": "told:model", "read": 1}');
INSERT INTO "effects" VALUES('r5adcf72252/answer#1/1/0','r5adcf72252','answer','synthetic','set_output','done',1,0,0,0,0.0,0,5.04520000049524242058e-04,'2026-11-22T13:01:19+00:00','2026-11-22T13:01:19+00:00',1,NULL,'{"content": "text is set.", "is_error": false, "pointer": null}');
INSERT INTO "effects" VALUES('r5adcf72252/answer#1/1/verdict','r5adcf72252','answer','judge','answer','done',1,0,0,0,0.0,0,3.38353000188362784683e-04,'2026-11-22T13:01:19+00:00','2026-11-22T13:01:19+00:00',2,NULL,'{"action": "accept", "level": 0, "feedback": null, "reason": null, "fault": null}');
INSERT INTO "effects" VALUES('r5adcf72252/GOAL#1','r5adcf72252',NULL,'judge','goal','done',1,0,0,0,0.0,0,2.57677600029637687839e-03,'2026-11-22T13:01:19+00:00','2026-11-22T13:01:19+00:00',3,NULL,'{"action": "accept", "feedback": null, "reasoning": "every phase of the work was accepted", "judgment": {"action": "accept", "confidence": 1.0, "reasoning": "every phase of the work was accepted", "feedback": null, "rule_id": null, "escalation_reason": null, "signals": [{"source": "evidence", "action": "accept", "confidence": 1.0, "detail": "every phase of the work was accepted"}], "satisfaction": null, "scores": {}, "absent": [], "violations": [], "tried": {}, "decision_id": 1}, "context": {"completed_steps": ["answer"], "failed_steps": [], "accumulated_context": {"text": "on ants"}, "constraints_violated": [], "feedback": "every phase of the work was accepted"}}');
CREATE TABLE eval_results (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        config_hash TEXT NOT NULL,
        golden_hash TEXT NOT NULL,
        index_hash TEXT NOT NULL,
        at TEXT NOT NULL,
        metrics TEXT NOT NULL
    );
INSERT INTO "eval_results" VALUES(1,'41cdc9f4141951871ea5f25416c3ee99271b63a99d4b887d93c7c3a6dd129baf','22be7f5508b4269037786c42e814d98dcc90d7d95d767d8f4204a6900b88f9f1','efeeb86051005fa8103c1c95bc7fe2c12a279cbf550ccfb17c6d9a040d015e86','2026-11-22T13:01:16+00:00','{"nudcg": 1.0, "nudcg_clipped": 1.0, "udcg": 1.0, "ndcg": 1.0, "recall": 1.0, "precision": 0.1, "mrr": 1.0, "distractors": 0.0, "results": 1.0, "unjudged": null, "latency_ms_p50": 0.111, "latency_ms_p95": 0.154}');
CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        time TEXT NOT NULL,
        tenant TEXT NOT NULL,
        run_id TEXT,
        thread_id TEXT,
        node_id TEXT,
        stream_id TEXT,
        payload TEXT NOT NULL
    );
INSERT INTO "events" VALUES(1,'5265ad27-ff78-4fb5-ab95-e3fce059093e','index.completed','2026-11-22T13:01:15.758+00:00','local',NULL,NULL,NULL,NULL,'{"documents": 2, "chunks": 2, "added": 2, "updated": 0, "deleted": 0, "unchanged": 0, "embedded": 0, "skipped": 0}');
INSERT INTO "events" VALUES(2,'6356e046-7081-4506-aca0-39a081092924','config.deployed','2026-11-22T13:01:15.892+00:00','local',NULL,NULL,NULL,NULL,'{"config": "naive", "version": 1, "by": "user:dana", "decision": "first", "via": "deploy"}');
INSERT INTO "events" VALUES(3,'0f053550-2ec1-4f60-abca-d7d5554fbbc7','config.deployed','2026-11-22T13:01:15.975+00:00','local',NULL,NULL,NULL,NULL,'{"config": "careful", "version": 2, "by": "user:dana", "decision": "inconclusive", "via": "deploy"}');
INSERT INTO "events" VALUES(4,'1e310443-1a5e-40a0-acff-2299ab8ab6ad','config.rolled_back','2026-11-22T13:01:15.999+00:00','local',NULL,NULL,NULL,NULL,'{"config": "naive", "version": 3, "by": "user:dana", "decision": "rollback", "via": "rollback"}');
INSERT INTO "events" VALUES(5,'6b9a483c-c1d5-45ba-a806-5af944a17dbb','config.deployed','2026-11-22T13:01:17.988+00:00','local',NULL,NULL,NULL,NULL,'{"agent": "digest", "version": 1, "by": "user:dana", "decision": "first", "via": "deploy"}');
INSERT INTO "events" VALUES(6,'d398877a-9c71-55fd-86d0-a34977272f28','approval.requested','2026-11-22T13:01:19.404+00:00','local',NULL,NULL,NULL,NULL,'{"approval_id": "ac60e7727b4", "kind": "deploy", "title": "let version 2 of digest serve: passed", "status": "pending", "by": null, "decision": null}');
INSERT INTO "events" VALUES(7,'a52bf48d-2e26-5945-a319-8b05c0c6ca0d','approval.decided','2026-11-22T13:01:19.424+00:00','local',NULL,NULL,NULL,NULL,'{"approval_id": "ac60e7727b4", "kind": "deploy", "title": "let version 2 of digest serve: passed", "status": "approved", "by": "user:kim", "decision": "approve"}');
INSERT INTO "events" VALUES(8,'85dd2d9a-e8fd-4b4b-aaf3-54a57f13ca02','config.deployed','2026-11-22T13:01:19.456+00:00','local',NULL,NULL,NULL,NULL,'{"agent": "digest", "version": 2, "by": "user:kim", "decision": "passed", "via": "approval"}');
INSERT INTO "events" VALUES(9,'6874b91f-c404-4919-a8ec-b49868a2c752','run.queued','2026-11-22T13:01:19.463+00:00','local','r5adcf72252','digest:r5adcf72252',NULL,NULL,'{"agent": "digest"}');
INSERT INTO "events" VALUES(10,'75cf9aba-f125-5c20-917c-1d1ac39bcfd5','run.started','2026-11-22T13:01:19.474+00:00','local','r5adcf72252','digest:r5adcf72252',NULL,'digest:r5adcf72252','{"agent": "digest"}');
INSERT INTO "events" VALUES(11,'25f28ba8-f9f3-5216-913e-e7ff2b834cc8','output.set','2026-11-22T13:01:19.568+00:00','local','r5adcf72252','digest:r5adcf72252','answer','digest:r5adcf72252','{"key": "text"}');
INSERT INTO "events" VALUES(12,'328c6405-a307-5649-adc1-d94eb3f793d5','tool.completed','2026-11-22T13:01:19.572+00:00','local','r5adcf72252','digest:r5adcf72252','answer','digest:r5adcf72252','{"tool": "set_output", "call": "answer#1/1/0", "fingerprint": "492cd3a2fc5ccb663d86ffac86180da3cbc51374e81b0cb1e308e4725e17e5d5", "chars": 12}');
INSERT INTO "events" VALUES(13,'aeb7971e-3092-5127-9dd0-851b0f4f716c','judgment.made','2026-11-22T13:01:19.584+00:00','local','r5adcf72252','digest:r5adcf72252','answer','digest:r5adcf72252','{"level": 0, "action": "accept", "feedback": "", "iteration": 1}');
INSERT INTO "events" VALUES(14,'d00023db-cb86-5425-adbe-a5778bdaa700','node.completed','2026-11-22T13:01:19.616+00:00','local','r5adcf72252','digest:r5adcf72252','answer','digest:r5adcf72252','{"visit": 1, "iterations": 1, "outputs": ["text"], "targets": [], "error": null}');
INSERT INTO "events" VALUES(15,'bb2afbab-ed0f-59f7-9659-77d3e8d7a227','judgment.made','2026-11-22T13:01:19.632+00:00','local','r5adcf72252','digest:r5adcf72252',NULL,'digest:r5adcf72252','{"level": "goal", "action": "accept", "feedback": "every phase of the work was accepted", "confidence": 1.0, "escalation_reason": null, "decision_id": 1}');
INSERT INTO "events" VALUES(16,'2f16bacc-2ee3-5e0d-b315-d0ef1ab7bf05','run.completed','2026-11-22T13:01:19.648+00:00','local','r5adcf72252','digest:r5adcf72252',NULL,'digest:r5adcf72252','{"approval_ids": [], "error": null}');
INSERT INTO "events" VALUES(17,'2346bd8c-d4f6-41a6-a0ce-7a80d1834469','config.rolled_back','2026-11-22T13:01:19.659+00:00','local',NULL,NULL,NULL,NULL,'{"agent": "digest", "version": 1, "by": "user:dana", "decision": "rollback", "via": "rollback"}');
CREATE TABLE feedback (
        id TEXT PRIMARY KEY,
        created_at TEXT NOT NULL,
        tenant TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        query TEXT NOT NULL,
        doc_id TEXT NOT NULL,
        verdict TEXT NOT NULL,
        by TEXT NOT NULL,
        comment TEXT,
        status TEXT NOT NULL,
        reviewed_by TEXT,
        reviewed_at TEXT,
        UNIQUE (run_id, doc_id, by)
    );
CREATE TABLE field_values (
        generation INTEGER NOT NULL,
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        number REAL,
        document INTEGER NOT NULL,
        PRIMARY KEY (generation, field, value, document)
    ) WITHOUT ROWID;
INSERT INTO "field_values" VALUES(1,'category','faqs',NULL,0);
INSERT INTO "field_values" VALUES(1,'category','guides',NULL,1);
CREATE TABLE human_labels (
        decision INTEGER NOT NULL REFERENCES judge_decisions (id),
        action TEXT NOT NULL,
        by TEXT NOT NULL,
        at TEXT NOT NULL,
        blind INTEGER NOT NULL,
        comment TEXT,
        PRIMARY KEY (decision, by)
    );
CREATE TABLE judge_decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        tenant TEXT NOT NULL,
        goal_type TEXT NOT NULL,
        goal_id TEXT,
        run_id TEXT,
        action TEXT NOT NULL,
        confidence REAL,
        source TEXT NOT NULL,
        rule_id TEXT,
        escalation_reason TEXT,
        judge_hash TEXT NOT NULL,
        judgment TEXT NOT NULL,
        result TEXT NOT NULL,
        audit INTEGER NOT NULL,
        outcome TEXT,
        llm_calls INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        usd REAL NOT NULL
    );
INSERT INTO "judge_decisions" VALUES(1,'2026-11-22T13:01:19+00:00','local','untyped','digest','r5adcf72252','accept',1.0,'evidence',NULL,NULL,'76cd72dbc80e5b15','{"action": "accept", "confidence": 1.0, "reasoning": "every phase of the work was accepted", "feedback": null, "rule_id": null, "escalation_reason": null, "signals": [{"source": "evidence", "action": "accept", "confidence": 1.0, "detail": "every phase of the work was accepted"}], "satisfaction": null, "scores": {}, "absent": [], "violations": [], "tried": {}, "options": ["accept", "retry", "replan", "escalate"]}','{"text": "on ants"}',0,NULL,0,0,0,0.0);
CREATE TABLE learned_rules (
        id TEXT PRIMARY KEY,
        stage TEXT NOT NULL,
        rule TEXT NOT NULL,
        history TEXT NOT NULL,
        updated_at TEXT NOT NULL
    );
CREATE TABLE leases (
        thread_id TEXT PRIMARY KEY,
        run_id TEXT,
        holder TEXT,
        fence INTEGER NOT NULL,
        expires_at REAL NOT NULL
    );
INSERT INTO "leases" VALUES('digest:r5adcf72252','r5adcf72252','09823f038ccc4e6d8b9298d3b07fbb2b',1,0.0);
CREATE TABLE messages (
        conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id),
        n INTEGER NOT NULL,
        key TEXT NOT NULL,
        role TEXT NOT NULL,
        parts TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (conversation_id, n),
        UNIQUE (conversation_id, key)
    );
INSERT INTO "messages" VALUES('c28cfdcb67cef',1,'answer#1/enter','user','[{"type": "text", "text": "Begin with answer.\n\nInputs:\n- topic: \"ants\""}]',15,'2026-11-22T13:01:19+00:00');
INSERT INTO "messages" VALUES('c28cfdcb67cef',2,'answer#1/1','assistant','[{"type": "tool_call", "id": "c1_0", "name": "set_output", "args": {"key": "text", "value": "on ants"}}]',24,'2026-11-22T13:01:19+00:00');
INSERT INTO "messages" VALUES('c28cfdcb67cef',3,'answer#1/1/0','tool','[{"type": "tool_result", "id": "c1_0", "text": "text is set.", "is_error": false}]',7,'2026-11-22T13:01:19+00:00');
CREATE TABLE postings (posting INTEGER PRIMARY KEY, generation INTEGER NOT NULL, data BLOB NOT NULL);
INSERT INTO "postings" VALUES(1,1,X'00000100');
INSERT INTO "postings" VALUES(2,1,X'00000100');
INSERT INTO "postings" VALUES(3,1,X'00000100');
INSERT INTO "postings" VALUES(4,1,X'00000100');
INSERT INTO "postings" VALUES(5,1,X'00000100');
INSERT INTO "postings" VALUES(6,1,X'00000000010100');
INSERT INTO "postings" VALUES(7,1,X'00000100');
INSERT INTO "postings" VALUES(8,1,X'00000100');
INSERT INTO "postings" VALUES(9,1,X'00000100');
INSERT INTO "postings" VALUES(10,1,X'00000100');
INSERT INTO "postings" VALUES(11,1,X'00000100010001000100');
INSERT INTO "postings" VALUES(12,1,X'00000100');
INSERT INTO "postings" VALUES(13,1,X'00000100');
INSERT INTO "postings" VALUES(14,1,X'00000000000100');
INSERT INTO "postings" VALUES(15,1,X'00000000000100');
INSERT INTO "postings" VALUES(16,1,X'00000000000100');
INSERT INTO "postings" VALUES(17,1,X'00000000000100');
INSERT INTO "postings" VALUES(18,1,X'00000000000100');
INSERT INTO "postings" VALUES(19,1,X'00000000000100');
INSERT INTO "postings" VALUES(20,1,X'01000100');
INSERT INTO "postings" VALUES(21,1,X'01000100');
INSERT INTO "postings" VALUES(22,1,X'01000100');
INSERT INTO "postings" VALUES(23,1,X'01000100');
INSERT INTO "postings" VALUES(24,1,X'01000100');
INSERT INTO "postings" VALUES(25,1,X'01000100');
INSERT INTO "postings" VALUES(26,1,X'01000100');
INSERT INTO "postings" VALUES(27,1,X'01000100');
INSERT INTO "postings" VALUES(28,1,X'01000000000100');
INSERT INTO "postings" VALUES(29,1,X'01000000000100');
CREATE TABLE queen_actions (
        key TEXT PRIMARY KEY,
        at TEXT NOT NULL,
        ticket_id TEXT,
        tenant TEXT NOT NULL,
        run_id TEXT,
        action TEXT NOT NULL,
        status TEXT NOT NULL,
        detail TEXT NOT NULL
    );
CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        thread_id TEXT NOT NULL,
        graph TEXT NOT NULL,
        input TEXT NOT NULL,
        status TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        result TEXT
    , tenant TEXT NOT NULL DEFAULT 'local', user TEXT NOT NULL DEFAULT 'local', agent TEXT, node TEXT, steps INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, usd REAL NOT NULL DEFAULT 0, stopped_by TEXT, error TEXT, key TEXT, control TEXT, control_by TEXT);
INSERT INTO "runs" VALUES('ra18ace6cd0','t20caf2cac7','worker','{"text": "How do I rotate an API key?", "doc_id": null, "pinned": [], "cursor": null}','done','2026-11-22T13:01:16+00:00','2026-11-22T13:01:17+00:00',NULL,'local','dana',NULL,NULL,0,0,0.0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('r5adcf72252','digest:r5adcf72252','event_loop','{"agent": {"id": "digest", "version": 2, "mode": "continuous", "identity": "", "goal": "digest", "entry": "answer", "nodes": [{"id": "answer", "system_prompt": "Topic: $topic. You know: ants bees lice.", "input_keys": ["topic"], "output_keys": ["text"], "nullable_output_keys": [], "tools": [], "sub_agents": [], "success_criteria": null, "judge": null, "max_iterations": 4, "max_tool_calls": 100, "requires_approval": false, "pause_before": false, "client_facing": false}], "edges": [], "pause_nodes": [], "tool_policy": [{"match": "*", "decision": "allow"}], "model": null, "capability": "can_handle"}, "goal": null, "input": {"topic": "ants"}, "principal": null, "limits": {"steps": 200, "tool_calls": 0, "tokens": 0, "usd": 0.0, "seconds": 0.0}, "brought": true}','done','2026-11-22T13:01:19+00:00','2026-11-22T13:01:19+00:00','{"run_id": "r5adcf72252", "status": "done", "outputs": {"text": "on ants"}, "judgment": {"action": "accept", "confidence": 1.0, "reasoning": "every phase of the work was accepted", "feedback": null, "rule_id": null, "escalation_reason": null, "signals": [{"source": "evidence", "action": "accept", "confidence": 1.0, "detail": "every phase of the work was accepted"}], "satisfaction": null, "scores": {}, "absent": [], "violations": [], "tried": {}, "decision_id": 1}, "approval_ids": [], "stopped_by": null, "error": null}','local','local','digest','answer',1,100,0.0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE term_stats (
        generation INTEGER NOT NULL,
        term TEXT NOT NULL,
        df INTEGER NOT NULL,
        posting INTEGER NOT NULL,
        PRIMARY KEY (generation, term)
    ) WITHOUT ROWID;
INSERT INTO "term_stats" VALUES(1,'a',1,4);
INSERT INTO "term_stats" VALUES(1,'an',1,18);
INSERT INTO "term_stats" VALUES(1,'api',1,19);
INSERT INTO "term_stats" VALUES(1,'balanc',1,28);
INSERT INTO "term_stats" VALUES(1,'centrifug',1,29);
INSERT INTO "term_stats" VALUES(1,'creat',1,3);
INSERT INTO "term_stats" VALUES(1,'deploy',1,7);
INSERT INTO "term_stats" VALUES(1,'do',1,15);
INSERT INTO "term_stats" VALUES(1,'each',1,26);
INSERT INTO "term_stats" VALUES(1,'equal',1,23);
INSERT INTO "term_stats" VALUES(1,'first',1,12);
INSERT INTO "term_stats" VALUES(1,'how',1,14);
INSERT INTO "term_stats" VALUES(1,'i',1,16);
INSERT INTO "term_stats" VALUES(1,'it',1,8);
INSERT INTO "term_stats" VALUES(1,'key',1,6);
INSERT INTO "term_stats" VALUES(1,'of',1,22);
INSERT INTO "term_stats" VALUES(1,'one',1,13);
INSERT INTO "term_stats" VALUES(1,'open',1,1);
INSERT INTO "term_stats" VALUES(1,'opposit',1,25);
INSERT INTO "term_stats" VALUES(1,'other',1,27);
INSERT INTO "term_stats" VALUES(1,'place',1,20);
INSERT INTO "term_stats" VALUES(1,'revok',1,10);
INSERT INTO "term_stats" VALUES(1,'rotat',1,17);
INSERT INTO "term_stats" VALUES(1,'second',1,5);
INSERT INTO "term_stats" VALUES(1,'set',1,2);
INSERT INTO "term_stats" VALUES(1,'the',2,11);
INSERT INTO "term_stats" VALUES(1,'then',1,9);
INSERT INTO "term_stats" VALUES(1,'tube',1,21);
INSERT INTO "term_stats" VALUES(1,'weight',1,24);
CREATE TABLE terms (term_no INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
INSERT INTO "terms" VALUES(0,'open');
INSERT INTO "terms" VALUES(1,'set');
INSERT INTO "terms" VALUES(2,'creat');
INSERT INTO "terms" VALUES(3,'a');
INSERT INTO "terms" VALUES(4,'second');
INSERT INTO "terms" VALUES(5,'key');
INSERT INTO "terms" VALUES(6,'deploy');
INSERT INTO "terms" VALUES(7,'it');
INSERT INTO "terms" VALUES(8,'then');
INSERT INTO "terms" VALUES(9,'revok');
INSERT INTO "terms" VALUES(10,'the');
INSERT INTO "terms" VALUES(11,'first');
INSERT INTO "terms" VALUES(12,'one');
INSERT INTO "terms" VALUES(13,'how');
INSERT INTO "terms" VALUES(14,'do');
INSERT INTO "terms" VALUES(15,'i');
INSERT INTO "terms" VALUES(16,'rotat');
INSERT INTO "terms" VALUES(17,'an');
INSERT INTO "terms" VALUES(18,'api');
INSERT INTO "terms" VALUES(19,'place');
INSERT INTO "terms" VALUES(20,'tube');
INSERT INTO "terms" VALUES(21,'of');
INSERT INTO "terms" VALUES(22,'equal');
INSERT INTO "terms" VALUES(23,'weight');
INSERT INTO "terms" VALUES(24,'opposit');
INSERT INTO "terms" VALUES(25,'each');
INSERT INTO "terms" VALUES(26,'other');
INSERT INTO "terms" VALUES(27,'balanc');
INSERT INTO "terms" VALUES(28,'centrifug');
CREATE TABLE threads (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        title TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (tenant, user, thread_id)
    ) WITHOUT ROWID;
INSERT INTO "threads" VALUES('local','dana','t20caf2cac7','How do I rotate an API key?','2026-11-22T13:01:16+00:00','2026-11-22T13:01:17+00:00');
CREATE TABLE triggers (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL,
        since TEXT NOT NULL,
        last_at TEXT,
        missed INTEGER NOT NULL DEFAULT 0,
        last_event_id TEXT,
        last_run_id TEXT
    );
CREATE TABLE turns (
        run_id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        n INTEGER NOT NULL,
        at TEXT NOT NULL,
        text TEXT NOT NULL,
        outcome TEXT NOT NULL,
        trace TEXT NOT NULL,
        UNIQUE (tenant, user, thread_id, n)
    );
INSERT INTO "turns" VALUES('ra18ace6cd0','local','dana','t20caf2cac7',1,'2026-11-22T13:01:17+00:00','How do I rotate an API key?','{"decision":{"route":"documents.search","rewritten_query":"How do I rotate an API key?","strategy":"ContentOnly","search_value":"How do I rotate an API key","filters":[],"reason":"a question about content","question":null,"options":[]},"doc_id":null,"planner":"deterministic","pinned":[],"status":"results","results":[{"doc_id":"faqs/rotate-key.md","chunk_id":"faqs/rotate-key.md#0","relevance":null,"relevance_source":"none"}],"answer_source":null,"rests_on":[],"named":{},"removed_citations":0,"judgment":null,"approval_id":null,"next_cursor":null,"usage":{"model_calls":0,"input_tokens":0,"output_tokens":0,"usd":0.0}}','{"nodes": [{"node": "rewrite", "ms": 6.027}, {"node": "route", "ms": 0.056}, {"node": "retrieve", "ms": 1.231}, {"node": "rerank", "ms": 0.012}, {"node": "permission_gate", "ms": 1.33}, {"node": "finalize", "ms": 5.861}], "strategy": "ContentOnly", "hybrid": null, "counts": {"gated": 1, "allowed": 1}, "models": {"calls": 0, "attempts": 0, "input_tokens": 0, "output_tokens": 0, "usd": 0.0, "unpriced": [], "by_model": {}, "failures": {}}, "notes": []}');
CREATE UNIQUE INDEX documents_by_id ON documents (generation, doc_id);
CREATE INDEX postings_by_generation ON postings (generation);
CREATE INDEX approvals_by_status ON approvals (status, created_at);
CREATE INDEX judge_decisions_by_type ON judge_decisions (goal_type, id);
CREATE INDEX feedback_by_status ON feedback (status, created_at);
CREATE INDEX events_by_run ON events (run_id);
CREATE INDEX effects_by_run ON effects (run_id);
CREATE UNIQUE INDEX runs_by_key ON runs (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX events_by_type ON events (type, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('corpus_stats',1);
INSERT INTO "sqlite_sequence" VALUES('events',17);
INSERT INTO "sqlite_sequence" VALUES('config_versions',3);
INSERT INTO "sqlite_sequence" VALUES('eval_results',1);
INSERT INTO "sqlite_sequence" VALUES('agent_versions',3);
INSERT INTO "sqlite_sequence" VALUES('judge_decisions',1);
COMMIT;
PRAGMA user_version = 7;
