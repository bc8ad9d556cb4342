#pragma once

// Our string and table functions against those that come with Lua, in a second, unguarded state.

struct stock;

struct stock *stock_open(void);
void stock_close(struct stock *s);

/// Run the same `source` (an expression list) in both; fails the test unless both give the same
/// values or both fail.
void stock_compare(struct stock *s, const char *source);
