-- All that 001 made. The role stays: it belongs to the server, and other databases may use it.
DROP FUNCTION afloat.prune, afloat.partitions_drop, afloat.partitions_make, afloat.month_ms,
    afloat.document_put, afloat.document_set, afloat.emit, afloat.append, afloat.stream_take,
    afloat.session_release, afloat.session_claim, afloat.session_hub, afloat.session_remove,
    afloat.session_meta, afloat.session_lock, afloat.session_new, afloat.hub_lives, afloat.hub_stop,
    afloat.hub_beat, afloat.hub_start, afloat.hurry, afloat.refuse, afloat.channel, afloat.now_ms;
DROP TABLE afloat.runs, afloat.documents, afloat.events, afloat.streams, afloat.sessions,
    afloat.hubs;
