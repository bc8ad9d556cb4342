#pragma once

/// The linker's build id of this program as hex digits; "unknown" when it has none. Two programs with
/// the same id are the same build.
const char *build_id(void);
