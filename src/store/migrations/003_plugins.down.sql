-- What was published is forgotten; the files of hubs stay as they are.

DROP TRIGGER documents_ring ON afloat.documents;
DROP TABLE afloat.plugin_hubs, afloat.plugin_channels, afloat.plugin_sets, afloat.plugin_blobs;
DROP FUNCTION afloat.plugin_errors, afloat.plugin_rows, afloat.plugin_say, afloat.plugin_end, afloat.plugin_turn,
    afloat.plugin_publish, afloat.plugin_blob_add, afloat.plugin_missing, afloat.plugin_look, afloat.plugin_leads, afloat.document_rings,
    afloat.plugin_owner;
