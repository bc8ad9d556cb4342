#pragma once

#include "tui/tui_int.h"

// The parts of the widgets, for the table in widgets.c.

/// How many rows a text takes that is wrapped at `cols` columns.
int text__rows(struct tui *t, struct str text, int cols);
int text__fit(struct tui *t, struct node *n, bool rows, int other);
void text__draw(struct tui *t, struct node *n);
void diff__draw(struct tui *t, struct node *n);
void status__draw(struct tui *t, struct node *n);

/// How far a node is scrolled that shows `total` rows, which `top` of what it keeps then holds; keys and the wheel that
/// change it.
int scroll__of(struct tui *t, const struct node *n, int total);
bool scroll__key(struct tui *t, struct node *n, const struct key *k);
/// How many rows a key moves by in this node: arrows, pages, the ends. False: it is no such key.
bool scroll__step(const struct node *n, const struct key *k, int *rows);
void scroll__mouse(struct tui *t, struct node *n, const struct key *k);
void scroll__by(struct tui *t, const struct node *n, int rows);

int list__fit(struct tui *t, struct node *n, bool rows, int other);
void list__draw(struct tui *t, struct node *n);
bool list__key(struct tui *t, struct node *n, const struct key *k);
void list__mouse(struct tui *t, struct node *n, const struct key *k);
/// The id of what is chosen in a list, a table or a palette, NULL where it has none; borrowed. `*number` is its place from 1,
/// 0: there is nothing to choose.
const struct json *list__chosen(struct tui *t, const struct node *n, size_t *number);
void table__draw(struct tui *t, struct node *n);
void palette__draw(struct tui *t, struct node *n);
bool palette__key(struct tui *t, struct node *n, const struct key *k);

void input__draw(struct tui *t, struct node *n);
bool input__edit(struct tui *t, struct node *n, const struct key *k);
