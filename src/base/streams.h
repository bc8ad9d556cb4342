#pragma once

/// Make the standard streams of this process ones that never wait: input is empty, and output that its reader does not take at
/// once fails. Before anything prints.
void streams_own(void);
