#pragma once

// The outside agents that can run turns and come with the program (docs/guide/engines.md): the name, which is also that of
// the program, and the command that installs it.
#define ENGINE_CODEX          "codex"
#define ENGINE_CODEX_INSTALL  "npm install -g @openai/codex"
#define ENGINE_CLAUDE         "claude"
#define ENGINE_CLAUDE_INSTALL "npm install -g @anthropic-ai/claude-code"
#define ENGINE_NATIVE         "native" // none of them: our own loop
