/** What a lane keeps. The one row of `lane` has its counters, so that no answer takes longer in a deep queue. */

import { REQUESTS } from '../object';

export const LANE_TABLES = [
    `
CREATE TABLE lane (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL,
  pool TEXT NOT NULL,
  weight INTEGER NOT NULL,
  queue_limit INTEGER NOT NULL,
  info TEXT NOT NULL,
  keyless INTEGER NOT NULL,
  history_id TEXT NOT NULL,
  schema INTEGER NOT NULL,
  revision INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL DEFAULT 'active',
  reason TEXT NOT NULL DEFAULT '',
  cause TEXT NOT NULL DEFAULT '',
  command TEXT NOT NULL DEFAULT '',
  evidence TEXT NOT NULL DEFAULT '{}',
  owner TEXT NOT NULL DEFAULT '',
  token TEXT NOT NULL DEFAULT '',
  left_token TEXT NOT NULL DEFAULT '',
  epoch INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER NOT NULL DEFAULT 0,
  cursor TEXT,
  baseline TEXT,
  landed TEXT,
  signed_upto INTEGER NOT NULL DEFAULT 0,
  last_id INTEGER NOT NULL DEFAULT 0,
  last_event INTEGER NOT NULL DEFAULT 0,
  events INTEGER NOT NULL DEFAULT 0,
  depth INTEGER NOT NULL DEFAULT 0,
  queued INTEGER NOT NULL DEFAULT 0,
  unfinished INTEGER NOT NULL DEFAULT 0,
  unretired INTEGER NOT NULL DEFAULT 0,
  asks INTEGER NOT NULL DEFAULT 0,
  asked TEXT NOT NULL DEFAULT '',
  kept_bytes INTEGER NOT NULL DEFAULT 0,
  kept_until INTEGER NOT NULL DEFAULT 0,
  floor TEXT,
  turn TEXT NOT NULL DEFAULT '',
  turn_until INTEGER NOT NULL DEFAULT 0,
  turn_fence INTEGER NOT NULL DEFAULT 0,
  tickets INTEGER NOT NULL DEFAULT 0,
  checked INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE queue (place INTEGER PRIMARY KEY, id TEXT NOT NULL, payload TEXT NOT NULL) STRICT;
CREATE TABLE records (
  id TEXT PRIMARY KEY,
  life TEXT NOT NULL,
  status TEXT NOT NULL,
  place INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  kind TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  more TEXT NOT NULL,
  payload TEXT,
  charged TEXT NOT NULL,
  size INTEGER NOT NULL,
  outcome TEXT,
  hold_reason TEXT,
  hold TEXT,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  directive TEXT,
  resigns INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX begun ON records (status, updated) WHERE status <> 'queued';
CREATE TABLE attempts (
  id TEXT NOT NULL,
  nonce TEXT NOT NULL,
  hash TEXT NOT NULL,
  purpose TEXT NOT NULL,
  blob BLOB NOT NULL,
  proof TEXT,
  PRIMARY KEY (id, nonce, hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE tombstones (id TEXT PRIMARY KEY, life TEXT NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX expiring ON tombstones (expires);
CREATE TABLE events (
  place INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER NOT NULL,
  tx_hash TEXT,
  error TEXT
) STRICT;
CREATE TABLE rooms (owner TEXT PRIMARY KEY, count INTEGER NOT NULL, size INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE fills (
  nonce TEXT NOT NULL,
  hash TEXT NOT NULL,
  purpose TEXT NOT NULL,
  blob BLOB NOT NULL,
  PRIMARY KEY (nonce, hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE kept (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  nonce TEXT NOT NULL,
  hash TEXT NOT NULL,
  intent TEXT NOT NULL,
  blob BLOB NOT NULL
) STRICT;
CREATE TABLE breaks (
  what TEXT PRIMARY KEY,
  count INTEGER NOT NULL,
  mark TEXT NOT NULL,
  at INTEGER NOT NULL,
  error TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE shelf (id TEXT PRIMARY KEY, at INTEGER NOT NULL, error TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE held (
  token TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  nonce TEXT NOT NULL,
  at INTEGER NOT NULL,
  till INTEGER NOT NULL,
  sent TEXT NOT NULL,
  owner TEXT NOT NULL,
  ticket INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deadlines ON held (till);
CREATE INDEX owned ON held (owner) WHERE state IN ('reserved', 'waiting');
CREATE TABLE reuse (nonce TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
${REQUESTS}`,
    // archives: final records that wait for one, and those that could not
    `
ALTER TABLE lane ADD COLUMN archive INTEGER;
ALTER TABLE lane ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
CREATE TABLE backlog (life TEXT PRIMARY KEY, id TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
    // lanes that own themselves, and what they count
    `
ALTER TABLE lane ADD COLUMN resident INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN sends INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN send_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN invalid_nonces INTEGER NOT NULL DEFAULT 0`,
    // lanes that nobody uses
    `
ALTER TABLE lane ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN used INTEGER NOT NULL DEFAULT 0`,
] as const;
