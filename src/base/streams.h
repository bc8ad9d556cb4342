#pragma once

/// Replace the standard streams of this process by streams that never wait: input is empty, and output that the reader does
/// not take at once fails. Call it before anything prints.
void streams_own(void);
