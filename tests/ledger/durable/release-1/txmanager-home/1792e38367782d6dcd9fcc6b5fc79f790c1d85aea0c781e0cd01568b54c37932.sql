BEGIN TRANSACTION;
CREATE TABLE homes (
  id TEXT PRIMARY KEY,
  slot INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  lane TEXT NOT NULL,
  life TEXT NOT NULL,
  born INTEGER NOT NULL,
  alias_of TEXT,
  record TEXT,
  expires INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "homes" VALUES('default/pool/key2',1005,'v1:7959f59064ff83dc1360fdc5f0421de00d1b0885','near:net:relayer:ed25519.a','life6',1795009835076,NULL,NULL,NULL);
CREATE TABLE release (step INTEGER PRIMARY KEY) STRICT;
INSERT INTO "release" VALUES(0);
CREATE INDEX open_homes ON homes (slot, born) WHERE record IS NULL;
CREATE INDEX expiring_homes ON homes (expires) WHERE expires IS NOT NULL;
COMMIT;
