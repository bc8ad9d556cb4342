#pragma once

#include "base/str.h"

// From the bytes of a terminal to keys. Pure: it reads nothing and has no clock.

enum key_code {
    KEY_CHAR, // `cp`; with KEY_CTRL a lower case letter or a sign
    KEY_ENTER,
    KEY_TAB,
    KEY_BACKSPACE,
    KEY_ESC,
    KEY_UP,
    KEY_DOWN,
    KEY_RIGHT,
    KEY_LEFT,
    KEY_HOME,
    KEY_END,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_INSERT,
    KEY_DELETE,
    KEY_FUNCTION, // F1 and so on: `cp` is the number
    KEY_MOUSE,    // `mouse`; only comes when the terminal was asked for it
    KEY_PASTE,    // a piece of pasted text, `text`; one paste may be several of them
    KEY_FOCUS_IN,
    KEY_FOCUS_OUT,
    KEY_OTHER, // a sequence that we have no use for
};

enum { KEY_SHIFT = 1, KEY_ALT = 2, KEY_CTRL = 4 };

enum mouse_kind { MOUSE_PRESS, MOUSE_RELEASE, MOUSE_DRAG, MOUSE_MOVE, MOUSE_UP, MOUSE_DOWN };

/// What a mouse did, and on which cell, counted from 0. MOUSE_UP and MOUSE_DOWN are the wheel.
struct key_mouse {
    enum mouse_kind kind;
    int button; // 1 left, 2 middle, 3 right; 0: none
    int row, col;
};

struct key {
    enum key_code code;
    unsigned mods; // of KEY_SHIFT, KEY_ALT, KEY_CTRL
    uint32_t cp;   // of KEY_CHAR and KEY_FUNCTION
    struct key_mouse mouse;
    struct str text; // of KEY_PASTE; borrowed until the next call. Not checked: may hold anything
};

enum { KEYS_HELD = 32 };

/// A reader of keys. Zeroed it is ready.
struct keys {
    char held[KEYS_HELD]; // a sequence or a character whose end has not come
    size_t n;
    bool pasting;
    bool taken; // what is held was handed out
};

/// Take one key from the front of `*bytes`. False: they are used up, and what is held is no key yet.
bool keys_next(struct keys *k, struct str *bytes, struct key *out);

/// True when what is held may be the Esc key: nothing followed it so far.
bool keys_waits(const struct keys *k);
/// Nothing came for a while: what is held is Esc. Only after keys_waits().
void keys_timeout(struct keys *k, struct key *out);
