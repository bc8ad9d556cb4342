// The answers of the MCP servers that offer our tools to engines.

#include "engine/offer.h"

void offer_write_hello(struct jw *w, const struct json *params, const char *version)
{
    jw_obj(w);
    jw_kstr(w, "protocolVersion", json_str(json_get(params, "protocolVersion"), "2025-06-18"));
    jw_key(w, "capabilities");
    jw_raw(w, STR("{\"tools\":{}}"));
    jw_kobj(w, "serverInfo");
    jw_kstrz(w, "name", "afloat");
    jw_kstrz(w, "version", version);
    jw_end_obj(w);
    jw_end_obj(w);
}

void offer_write_tools(struct jw *w, const struct json *tools)
{
    jw_obj(w);
    jw_karr(w, "tools");
    json_foreach_item (it, tools) {
        jw_obj(w);
        jw_kvalue(w, "name", json_get(it, "name"));
        jw_kvalue(w, "description", json_get(it, "description"));
        jw_kvalue(w, "inputSchema", json_get(it, "input_schema"));
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

void offer_write_result(struct jw *w, struct str output, bool success)
{
    jw_obj(w);
    jw_karr(w, "content");
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", output);
    jw_end_obj(w);
    jw_end_arr(w);
    jw_kbool(w, "isError", !success);
    jw_end_obj(w);
}

const struct json *offer_input(const struct json *params)
{
    static const struct json nothing = {.type = JSON_OBJ};
    const struct json *input = json_get(params, "arguments");
    return input != NULL && input->type == JSON_OBJ ? input : &nothing;
}
