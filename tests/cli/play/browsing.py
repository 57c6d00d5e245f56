"""The page in a browser, as its user sees it."""

from __future__ import annotations


def foreign(url, server):
    here = url.startswith((f"http://127.0.0.1:{server.server_port}/", "data:"))
    return [] if here else [f"asked for {url}"]


def complaint(text):
    # An answer 400, which the page shows.
    return [] if text.startswith("Failed to load resource") else [text]


def settle(page):
    page.wait_for_selector("#plot[data-state=ready]", timeout=120_000)


def state_of(page):
    """What the address holds, as a request."""
    page.wait_for_timeout(250)
    given = dict(part.split("=", 1) for part in page.url.partition("#")[2].split("&"))
    points = [[*map(float, p.split(",")[:2]), int(p[-1])] for p in given["p"].split(";") if p]
    names = ("C", "gamma", "spread", "D", "coverage", "nu", "stretch", "angle")
    return {
        "points": points,
        "models": given["m"].split(","),
        "kernel": given["k"],
        "settings": {name: float(given[name]) for name in names},
        "standardize": given["z"] == "1",
        "stretched": given["f"] == "1",
    }


def table(text, name="t.csv"):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


SHEET = "Datum;Kunde;Größe;Umsatz;Rabatt;Art\n" + "".join(
    f"{i % 28 + 1}.03.2024;Kunde {i};{i},5;{i * i};{i % 5};{'ja' if i % 3 else 'nein'}\n"
    for i in range(20)
)


def open_table(page, *given):
    with page.expect_response("**/fit", timeout=120_000):
        page.set_input_files("#file", table(*given))
    settle(page)
