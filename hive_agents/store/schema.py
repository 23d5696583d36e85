"""The schema of the workspace's database, as the scripts that lead to it."""

SEALS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'moved_*'"
"""The triggers of a file whose records were moved away."""
INDEX_TABLES = frozenset(
    {
        "corpus_stats",
        "segments",
        "parts",
        "documents",
        "chunks",
        "terms",
        "postings",
        "term_stats",
        "field_values",
        "import_sources",
        "imports",
        "file_stamps",
        "source_items",
        "source_runs",
        "source_pauses",
    }
)
"""The index, which each host builds from the documents; all other tables hold records, which hosts may share."""

# Forward only: a release appends a script, and never edits one that has shipped.
MIGRATIONS = (
    """
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
    CREATE UNIQUE INDEX documents_by_id ON documents (generation, doc_id);
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
    CREATE TABLE terms (term_no INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
    CREATE TABLE postings (posting INTEGER PRIMARY KEY, generation INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE INDEX postings_by_generation ON postings (generation);
    CREATE TABLE term_stats (
        generation INTEGER NOT NULL,
        term TEXT NOT NULL,
        df INTEGER NOT NULL,
        posting INTEGER NOT NULL,
        PRIMARY KEY (generation, term)
    ) WITHOUT ROWID;
    CREATE TABLE field_values (
        generation INTEGER NOT NULL,
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        number REAL,
        document INTEGER NOT NULL,
        PRIMARY KEY (generation, field, value, document)
    ) WITHOUT ROWID;
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
    CREATE TABLE eval_results (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        config_hash TEXT NOT NULL,
        golden_hash TEXT NOT NULL,
        index_hash TEXT NOT NULL,
        at TEXT NOT NULL,
        metrics TEXT NOT NULL
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
    );
    """,
    """
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
    CREATE INDEX approvals_by_status ON approvals (status, created_at);
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
    CREATE INDEX judge_decisions_by_type ON judge_decisions (goal_type, id);
    CREATE TABLE human_labels (
        decision INTEGER NOT NULL REFERENCES judge_decisions (id),
        action TEXT NOT NULL,
        by TEXT NOT NULL,
        at TEXT NOT NULL,
        blind INTEGER NOT NULL,
        comment TEXT,
        PRIMARY KEY (decision, by)
    );
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
    CREATE TABLE drift (
        goal_type TEXT PRIMARY KEY,
        e_value REAL NOT NULL,
        alarmed_at TEXT
    );
    CREATE TABLE learned_rules (
        id TEXT PRIMARY KEY,
        stage TEXT NOT NULL,
        rule TEXT NOT NULL,
        history TEXT NOT NULL,
        updated_at TEXT NOT NULL
    );
    """,
    """
    ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT 'local';
    ALTER TABLE runs ADD COLUMN user TEXT NOT NULL DEFAULT 'local';
    CREATE TABLE threads (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        title TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (tenant, user, thread_id)
    ) WITHOUT ROWID;
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
    CREATE TABLE answers (
        run_id TEXT PRIMARY KEY REFERENCES turns (run_id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        documents TEXT NOT NULL
    );
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
    CREATE INDEX feedback_by_status ON feedback (status, created_at);
    """,
    """
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
    CREATE INDEX events_by_run ON events (run_id);
    """,
    """
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
    CREATE TABLE compactions (
        conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id),
        n INTEGER NOT NULL,
        tier TEXT NOT NULL,
        lead TEXT,
        changes TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (conversation_id, n)
    );
    CREATE TABLE cursors (
        conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id),
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (conversation_id, key)
    );
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
    """,
    """
    ALTER TABLE runs ADD COLUMN agent TEXT;
    ALTER TABLE runs ADD COLUMN node TEXT;
    ALTER TABLE runs ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN usd REAL NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN stopped_by TEXT;
    ALTER TABLE runs ADD COLUMN error TEXT;
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
    CREATE INDEX effects_by_run ON effects (run_id);
    """,
    """
    ALTER TABLE runs ADD COLUMN key TEXT;
    ALTER TABLE runs ADD COLUMN control TEXT;
    ALTER TABLE runs ADD COLUMN control_by TEXT;
    CREATE UNIQUE INDEX runs_by_key ON runs (tenant, key) WHERE key IS NOT NULL;
    CREATE INDEX runs_by_status ON runs (status);
    CREATE INDEX events_by_type ON events (type, seq);
    CREATE TABLE leases (
        thread_id TEXT PRIMARY KEY,
        run_id TEXT,
        holder TEXT,
        fence INTEGER NOT NULL,
        expires_at REAL NOT NULL
    );
    CREATE TABLE consumers (
        name TEXT PRIMARY KEY,
        seq INTEGER NOT NULL
    );
    CREATE TABLE triggers (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL,
        since TEXT NOT NULL,
        last_at TEXT,
        missed INTEGER NOT NULL DEFAULT 0,
        last_event_id TEXT,
        last_run_id TEXT
    );
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
    """,
    """
    CREATE TABLE import_sources (
        source INTEGER PRIMARY KEY,
        path TEXT NOT NULL,
        pattern TEXT NOT NULL,
        place TEXT NOT NULL,
        rev TEXT,
        metadata TEXT NOT NULL,
        at TEXT NOT NULL,
        UNIQUE (path, pattern, place)
    );
    CREATE TABLE imports (
        source INTEGER NOT NULL REFERENCES import_sources (source),
        file TEXT NOT NULL,
        doc_id TEXT UNIQUE,
        file_hash TEXT,
        recipe TEXT,
        written BLOB,
        pending BLOB,
        moved_from TEXT,
        refused TEXT,
        at TEXT NOT NULL,
        PRIMARY KEY (source, file)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE effects ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN wake_at REAL;
    """,
    """
    CREATE TABLE canary_impressions (
        run_id TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        kind TEXT NOT NULL,
        teams TEXT NOT NULL,
        reader TEXT NOT NULL,
        asked TEXT NOT NULL,
        at TEXT NOT NULL,
        settles_at TEXT NOT NULL,
        UNIQUE (version, asked)
    );
    CREATE TABLE canary_credits (
        run_id TEXT NOT NULL REFERENCES canary_impressions (run_id),
        rank INTEGER NOT NULL,
        kind TEXT NOT NULL,
        value INTEGER NOT NULL,
        PRIMARY KEY (run_id, rank, kind)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE corpus_stats ADD COLUMN shared_lines BLOB;
    """,
    """
    CREATE INDEX runs_by_start ON runs (started_at);
    CREATE INDEX runs_by_graph ON runs (graph, started_at);
    CREATE INDEX runs_by_thread ON runs (thread_id);
    DROP INDEX runs_by_status;
    CREATE INDEX runs_by_status ON runs (status, started_at);
    """,
    """
    CREATE TABLE file_stamps (
        doc_id TEXT PRIMARY KEY,
        stamp TEXT NOT NULL,
        content_hash TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE INDEX approvals_by_start ON approvals (created_at);
    CREATE INDEX approvals_by_deadline ON approvals (status, due_at);
    CREATE INDEX approvals_by_reminder ON approvals (status, remind_at);
    CREATE INDEX approvals_by_due ON approvals (
        status, coalesce(due_at, '9999'), (CASE risk WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END), created_at
    );
    """,
    """
    CREATE INDEX approvals_by_run ON approvals (run_id, created_at);
    CREATE INDEX approvals_by_requester ON approvals (requester, created_at);
    """,
    """
    CREATE TABLE proofs (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        roles TEXT NOT NULL,
        made_by TEXT,
        made_at TEXT,
        expires_at INTEGER,
        ended_at TEXT,
        ended_by TEXT,
        PRIMARY KEY (kind, id, tenant)
    ) WITHOUT ROWID;
    CREATE INDEX proofs_by_user ON proofs (tenant, user);
    CREATE TABLE open_streams (
        host TEXT NOT NULL,
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        streams INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (host, tenant, user)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE drift ADD COLUMN numbers TEXT NOT NULL DEFAULT '[]';
    """,
    """
    ALTER TABLE feedback ADD COLUMN makers TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE human_labels ADD COLUMN makers TEXT NOT NULL DEFAULT '[]';
    """,
    """
    ALTER TABLE imports ADD COLUMN left_out TEXT;
    ALTER TABLE import_sources ADD COLUMN brings TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE document_imports (
        import_id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        by TEXT NOT NULL,
        at TEXT NOT NULL,
        folder TEXT NOT NULL,
        fields TEXT NOT NULL,
        labels TEXT NOT NULL,
        status TEXT NOT NULL,
        files TEXT NOT NULL,
        ended_at TEXT
    );
    CREATE INDEX document_imports_by_end ON document_imports (ended_at);
    """,
    # From here on `generation` in the tables of documents, chunks and postings is the number of a segment.
    """
    CREATE TABLE segments (
        segment INTEGER PRIMARY KEY,
        lengths BLOB NOT NULL,
        chunk_documents BLOB NOT NULL,
        shared_lines BLOB,
        shared_hashes BLOB NOT NULL,
        lines BLOB,
        elsewhere BLOB
    );
    CREATE TABLE parts (
        generation INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        documents BLOB,
        chunks BLOB,
        PRIMARY KEY (generation, segment)
    ) WITHOUT ROWID;
    INSERT INTO segments SELECT generation, lengths, chunk_documents, shared_lines, x'', NULL, NULL FROM corpus_stats;
    INSERT INTO parts SELECT generation, generation, NULL, NULL FROM corpus_stats;
    ALTER TABLE corpus_stats DROP COLUMN lengths;
    ALTER TABLE corpus_stats DROP COLUMN chunk_documents;
    ALTER TABLE corpus_stats DROP COLUMN shared_lines;
    """,
    """
    CREATE TABLE source_items (
        source TEXT NOT NULL,
        key TEXT NOT NULL,
        revision TEXT,
        access TEXT,
        failure TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        retry_at REAL,
        PRIMARY KEY (source, key)
    ) WITHOUT ROWID;
    CREATE TABLE source_runs (
        id INTEGER PRIMARY KEY,
        source TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        status TEXT NOT NULL,
        counts TEXT NOT NULL,
        message TEXT
    );
    CREATE INDEX source_runs_by_source ON source_runs (source, id);
    CREATE TABLE source_pauses (source TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    CREATE TABLE request_buckets (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        requests REAL NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (tenant, user)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE thread_files (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        file_id TEXT NOT NULL,
        name TEXT NOT NULL,
        characters INTEGER NOT NULL,
        passages TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (tenant, user, thread_id, name)
    );
    """,
    """
    ALTER TABLE feedback ADD COLUMN passage TEXT;
    """,
)
