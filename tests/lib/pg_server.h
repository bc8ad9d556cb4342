#pragma once

/// A PostgreSQL server of this test's own, below test_dir(), gone with the test. The address of its
/// database, static memory. Skips the test where PostgreSQL is not installed.
const char *pg_server_start(void);
/// Stop it as a crash would, and start it again on the same data.
void pg_server_stop(void);
void pg_server_again(void);
