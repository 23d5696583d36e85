"""Claims that are right by how they are made, and what others say of the same: the check compares like with like."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from hive_agents.judging import slips
from hive_agents.judging.passages import read

SETS = Path(__file__).parent / "claims"
_POINTS = re.compile(r"(?:It|They|This|That|These|Those|He|She|There|Otherwise|But|So|Then|However|Also)\b")


def joined(text: str) -> list[str]:
    """Return each two sentences that follow each other, as one."""
    found = []
    for line in read(text).text.split("\n"):
        if line.count("|") < 2 and not line.startswith("#"):
            said = [one for one in re.split(r"(?<=[.!])\s+(?=[A-Z])", line.strip(" *-")) if 25 < len(one) < 160]
            pairs = [(a, b) for a, b in pairwise(said) if not _POINTS.match(b)]
            found += [f"{a.rstrip('.')}, and {b[0].lower()}{b[1:]}" for a, b in pairs if not a.endswith(("?", ":"))]
    return found


def test_a_sentence_of_the_passages_is_right_as_it_stands_and_joined_to_the_next() -> None:
    texts = [one["text"] for path in sorted(SETS.glob("*.toml")) for one in tomllib.loads(path.read_text())["document"]]
    sentences = [(one, text) for text in texts for one in read(text).sentences if len(one) < 260]
    assert [one for one, text in sentences if slips(one, [text])] == []
    pairs = [(one, text) for text in texts for one in joined(text)]
    marked = [one for one, text in pairs if slips(one, [text])]
    assert len(pairs) > 500
    assert len(marked) <= 0.03 * len(pairs), marked  # 5 of 100 were before parts of a claim were read by themselves


GRADES = "| Grade | Use |\n| --- | --- |\n| A | outdoor |\n| B | indoor |\n\nGrade A boards may be indoor floors."


@pytest.mark.parametrize(
    ("passage", "right", "wrong"),
    [
        (GRADES, "Indoor floors may be boards of grade A.", "Grade A is for indoor use."),
        ("Huts cost up to 80 crowns, on the island up to 120.",
         "Huts cost up to 80 crowns and on the island up to 120.",
         "On the island huts cost up to 80 crowns."),
        ("It was drawn by Eva Lund, who liked the view from the tower, and etched by her pupil Ola Berg.",
         "Eva Lund drew it, liking the view from the tower, and her pupil Ola Berg etched it.",
         "Ola Berg liked the view from the tower."),
        ("Drums are turned whenever the light is red. The bell rings.", "Whenever the light is red, drums are turned.",
         "Drums are always turned."),
        ("A barrel must be sealed at night. A crate may be opened by the clerks at noon.",
         "A barrel must be sealed at night, and a crate may be opened at noon by the clerks.",
         "A barrel must be sealed at night, and a crate must not be opened by the clerks at noon."),
        ("Press the key once (if the saw is running) or twice (if the saw is not running) until it clicks.",
         "If the saw isn't running, press the key twice until it clicks.",
         "Press the key three times if the saw is running."),
        ("Names of crates are now checked. Before, the clerk would guess the names of crates if they were missing.",
         "Now the names of crates are checked.", "The names of crates aren't checked now."),
        ("- Fixes the early stop of a pump when its tank is full.", "A pump doesn't stop early when its tank is full.",
         "The pump stops early when its crate is full of KX-9."),
        ("In frost, the pump will cycle off and the rotor will continue to turn.",
         "In frost the pump stops and the rotor turns.", "In frost, the rotor will stop."),
        ("A kilowatt-hour costs £0.12.", "A kilowatt-hour costs 12 pence.", "A kilowatt-hour costs 21 pence."),
        ("Below 65 F. ice may form. It works best at 70 F.", "Ice may form below 65 °F.", "Ice may form below 55 °F."),
        ("The thaw will last for a few minutes.", "The thaw lasts a few minutes.", "The thaw lasts a few hours."),
        ("The green lamp blinks one time each second.", "Once a second the green lamp blinks.",
         "The green lamp blinks once a minute."),
        ("The lid is oiled every ten days.", "Every 10 days the lid is oiled.", "The lid is oiled every day."),
        ("This lets guests print maps without having to install a driver first.",
         "Guests can print maps without installing a driver first.",
         "To print maps guests must install a driver first."),
        ("The old `draft` option has been deprecated.", "The `draft` option is deprecated.",
         "The old `draft` option has been removed."),
        ("Guide dogs are exempt from the harbour fee.", "Guide dogs aren't subject to the harbour fee.",
         "Guide dogs are subject to the harbour fee."),
        ("On some boats, the horn will keep sounding. The horn stops when the fog lifts.",
         "On some boats the horn keeps sounding.", "On all boats the horn keeps sounding when the fog lifts."),
        ("Kiln shelves stand heat and crack in frost, except shelves 8 and 9, which stand frost.",
         "Kiln shelves 8 and 9 stand frost.", "All kiln shelves stand frost."),
        ("- Scale (if the hardness is less than 20 ppm it harms the paint)\n"
         "- Chalk (if the hardness is more than 90 ppm you may see chalk)",
         "If the hardness is higher than 90 ppm you may see chalk.",
         "If the hardness is higher than 70 ppm you may see chalk."),
        ("The new `ring.all()` returns all bells of the current tower."
         " `ring.clear()` was mended to clear all bells of the current tower.",
         "`ring.clear()` clears all bells of the current tower.",
         "`ring.clear()` returns all bells of the current tower."),
        ("The export no longer takes names in capitals (for example, `file` should be used instead of `FILE`).",
         "The export doesn't take names in capitals any more.", "The export takes names in capitals only."),
        ("Fees\n\n- Boat hire (excluding canoes and skiffs) – 9 crowns\n- Locker – 2 crowns\n- Shower – 1 crown\n",
         "Boat hire costs 9 crowns, but not for canoes and skiffs.", "Canoe hire costs 9 crowns."),
        ("| What | Hut Small | Hut Large |\n| --- | --- | --- |\n| Bunk beds | 4 | 9 |\n| Stove size | 3 kW | 8 kW |\n"
         "\n| Club | Largest fee |\n| --- | --- |\n| Small | 3 EUR |\n| Wide | 20 EUR |\n",
         "A small hut has a stove of 3 kW and a large one of 8 kW.", "A large hut has 4 bunk beds."),
        ("Rugs are washed (except for silk ones) in the yard.", "Rugs are washed in the yard.",
         "Silk rugs are washed in the yard."),
        ("The lamp fee is $.25 per night.", "The lamp fee is 25 cents per night.",
         "The lamp fee is 52 cents per night."),
        ("Charge (4-10kW units) | 1.4 kg, and 20mg/kg of oil.", "Units of 4 to 10 kW take 20 mg of oil per kilogram.",
         "Units of 4 to 12 kW take 20 mg of oil per kilogram."),
        ("The council met on 21-01-2022 at 7.30pm.", "The council met on 21 January 2022 at half past seven.",
         "The council met on 12 January 2022 at half past seven."),
        ("The gate closes at 6 pm.", "The gate closes at six in the evening.",
         "The gate closes at seven in the evening."),
        ("Toddlers: one 5 ml spoonful and one 2.5 ml spoonful", "Toddlers take 7.5 ml.", "Toddlers take 8.5 ml."),
        ("| Lamp | Weight in Grams |\n| --- | --- |\n| Vega 40 | 530 |\n| Lyra 40 | 562 |\n",
         "The Vega 40 weighs 530 g.", "The Vega 40 weighs 530 kg."),
        ("| State | Mast A1 | Mast A2 |\n|---|---|---|\n| Start, maximum | 0.85 | 0.40 |\n| Idle | 0.60 | 0.22 |\n",
         "At most 850 mA go to Mast A1 while it starts.", "Idle, the Mast A1 takes 0.22 A."),
        ("| Trip | Leave needed |\n| --- | --- |\n| Short trips | No (if announced) |\n| Long trips | Yes |\n",
         "No leave is needed for short trips.", "Leave is needed for short trips."),
        ("Store below 30°C. Do not store above 30°C.", "It is stored at 30 degrees Celsius at most.",
         "Store it above 30°C."),
        ("The mill does not require any oil.", "The mill needs no oil.", "The mill requires oil."),
        ("Ink is sold at most branches.", "Most branches sell ink.", "Ink is sold at all branches."),
        ("Prohibited uses: cash advances, lending to neighbours, private trips",
         "Lending to neighbours is prohibited.", "Members may lend to neighbours."),
        ("The lower the tide the better, like at the mill.", "The lower the tide, the better.",
         "The higher the tide the better."),
        ("If deny-other-boats is set to yes, no other boat can use berth 53.",
         "When deny-other-boats is yes, no other boat can use berth 53.",
         "When deny-other-boats is yes, other boats can use berth 53."),
        ("`sail` learned sail.defaulttopname to name the top.", "sail.defaulttopname names the top.",
         "sail.defaultmastname names the top."),
        ("After the 4th notice the account is closed.", "The account is closed after the fourth notice.",
         "The account is closed after the third notice."),
    ],
)  # fmt: skip
def test_a_claim_is_held_against_what_speaks_of_the_same(passage: str, right: str, wrong: str) -> None:
    assert slips(right, [passage]) == []
    assert slips(wrong, [passage]) != []


def test_what_is_wrong_is_found_beside_what_is_right() -> None:
    """A claim that joined a right sentence to a wrong one was held against the passages as a whole, and 44 % passed."""
    found, n = 0, 0
    for path in sorted(SETS.glob("*.toml")):
        for document in tomllib.loads(path.read_text(encoding="utf-8"))["document"]:
            text = document["text"]
            right = [one for one in read(text).sentences if 40 < len(one) < 140 and one[-1] == "." and one[0].isalpha()]
            for claim in document.get("wrong", ()):
                if right and slips(claim, [text]):
                    beside = right[len(claim) % len(right)].rstrip(".")
                    found += bool(slips(f"{beside}, and {claim[0].lower()}{claim[1:]}", [text]))
                    n += 1
    assert n > 400
    assert found >= 0.8 * n
