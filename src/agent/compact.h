#pragma once

/// How the request for a summary of a conversation begins. The offline model knows it by this.
#define COMPACT_TASK                                                                               \
    "Summarise the conversation below for yourself: you will go on with it and see only your "     \
    "summary. "
