"""Several clients delete one thing at once: one of them did it, the others are told that it is not there."""
import json
import threading

import pytest

CLIENTS = 6


def make_plugin(home):
    body = json.dumps({"name": "gone", "content": "command { name = 'c', run = function() return 1 end }\n"}).encode()
    assert home.http("POST", "/plugin/save", body).status in (200, 201)
    return "/plugin/gone"


def make_session(home):
    return "/session/" + home.http("POST", "/session", b"{}").json()["id"]


def make_skill(home):
    assert home.http("PUT", "/skills/gone", b'{"body":"# A skill\\n"}').status in (200, 201)
    return "/skills/gone"


def make_bot(home):
    assert home.http("POST", "/bots", b'{"name":"gone"}').status in (200, 201)
    return "/bots/gone"


@pytest.mark.parametrize("make,query", [(make_plugin, ""), (make_session, "?purge=true"), (make_skill, ""),
                                        (make_bot, "?history=true"), (make_bot, "")],
                         ids=["plugin", "session", "skill", "bot-history", "bot"])
def test_of_many_deletes_one_wins_and_the_rest_find_nothing(home, hub, make, query):
    for _ in range(5):
        path = make(home)
        answers = []
        together = threading.Barrier(CLIENTS)

        def delete():
            together.wait()
            answers.append(home.http("DELETE", path + query))

        clients = [threading.Thread(target=delete) for _ in range(CLIENTS)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        said = [(a.status, a.body) for a in answers]
        statuses = sorted(a.status for a in answers)
        if make is make_session:  # ending a session that is on its way out is no fault
            assert statuses[0] == 200 and set(statuses) <= {200, 404}, said
        else:
            assert statuses == [200] + [404] * (CLIENTS - 1), said
        assert home.http("DELETE", path + query).status == 404
