BEGIN TRANSACTION;
CREATE TABLE _cf_ALARM (
      actor_id TEXT PRIMARY KEY,
      scheduled_time INTEGER,
      actor_name TEXT
    ) WITHOUT ROWID;
COMMIT;
