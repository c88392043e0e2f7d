/** What is shared by all lanes. Each part has an object of its own, so that audits never wait for rates. */

export const REGISTRY_TABLES = [
    `
CREATE TABLE routes (
  lane TEXT PRIMARY KEY,
  pool TEXT NOT NULL,
  weight INTEGER NOT NULL,
  state TEXT NOT NULL,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE members (name TEXT PRIMARY KEY, lanes TEXT NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE made (
  owner TEXT NOT NULL,
  lane TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (owner, lane)
) STRICT, WITHOUT ROWID;
CREATE TABLE buckets (
  name TEXT PRIMARY KEY,
  left_over REAL NOT NULL,
  at INTEGER NOT NULL,
  full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX full_buckets ON buckets (full_at);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  is_refused INTEGER NOT NULL,
  at INTEGER NOT NULL,
  entry TEXT NOT NULL
) STRICT;
CREATE INDEX audit_lists ON audit (tenant, is_refused, number);
CREATE TABLE holders (target TEXT PRIMARY KEY, holder TEXT NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE places (
  target TEXT NOT NULL,
  lane TEXT NOT NULL,
  event TEXT NOT NULL,
  PRIMARY KEY (target, lane)
) STRICT, WITHOUT ROWID;
CREATE TABLE letters (
  id TEXT PRIMARY KEY,
  target TEXT NOT NULL,
  at INTEGER NOT NULL,
  revived INTEGER NOT NULL,
  letter TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX letters_by_age ON letters (revived, at)`,
    // sessions of people, and budgets
    `
CREATE TABLE codes (
  issuer TEXT NOT NULL,
  id TEXT NOT NULL,
  ends INTEGER NOT NULL,
  PRIMARY KEY (issuer, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
  issuer TEXT NOT NULL,
  id TEXT NOT NULL,
  opened INTEGER NOT NULL,
  ends INTEGER NOT NULL,
  origin TEXT NOT NULL,
  PRIMARY KEY (issuer, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE budgets (
  name TEXT PRIMARY KEY,
  open INTEGER NOT NULL,
  override INTEGER,
  per_ms INTEGER NOT NULL,
  bucket_ms INTEGER NOT NULL,
  expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX idle_budgets ON budgets (expires) WHERE expires IS NOT NULL;
CREATE TABLE charges (
  budget TEXT NOT NULL,
  life TEXT NOT NULL,
  units INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  born INTEGER NOT NULL,
  id TEXT NOT NULL,
  look INTEGER NOT NULL,
  PRIMARY KEY (budget, life)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_charges ON charges (look);
CREATE TABLE costs (
  budget TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  units INTEGER NOT NULL,
  PRIMARY KEY (budget, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE ended (
  budget TEXT NOT NULL,
  life TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (budget, life)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgotten_lives ON ended (until);
CREATE TABLE history (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL) STRICT`,
    // lanes that nobody uses
    `
ALTER TABLE routes ADD COLUMN parked INTEGER NOT NULL DEFAULT 0`,
];
