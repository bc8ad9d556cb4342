#pragma once

#include "pg/pg.h"

// The schema of a store in PostgreSQL, step by step: src/store/migrations/NNN_name.{up,down}.sql, built
// into the program. All of it blocks: for workers and commands.

/// The newest schema that this program knows.
int migrate_latest(void);

/// Which schema the database has; 0: none of ours.
int migrate_schema(struct pg_link *l, int *out, struct err *e) MUST_CHECK;

/// Told after each step: the schema that the database has now, and the step's name.
typedef void migrate_told(void *arg, int schema, const char *name);

/// Bring the database to `target` (0 to migrate_latest()), up or down. Each step is a transaction of its
/// own: killed at any time, the database has one schema or the other. Two who do it at once wait for each
/// other. ERR_CONFLICT when the database is newer than this program; ERR_DENIED without the rights.
/// `told` may be NULL.
int migrate_to(struct pg_link *l, int target, migrate_told *told, void *arg,
               struct err *e) MUST_CHECK;
