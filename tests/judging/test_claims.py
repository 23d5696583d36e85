from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents.judging import amounts, slips
from hive_agents.judging.amounts import Quantity

SETS = Path(__file__).parent / "claims"


def labelled(name: str) -> list[tuple[str, str, bool]]:
    """Return (document, claim, whether it is right) of a set; "leave again" are the second claims on its texts."""
    name, *again = name.split()
    documents = tomllib.loads((SETS / f"{name}.toml").read_text(encoding="utf-8"))["document"]
    keys = [("_".join((key, *again)), key == "right") for key in ("right", "wrong")]
    return [(one["text"], claim, right) for one in documents for key, right in keys for claim in one.get(key, ())]


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("tuned", (54, 54), (0, 54)),
        ("untouched", (54, 54), (0, 54)),
        ("fresh", (28, 30), (0, 30)),  # at the first look 19 and 3
        ("later", (18, 20), (0, 20)),  # 14 and 2
        ("last", (14, 15), (0, 15)),  # 9 and 0
        ("leaflets", (26, 30), (1, 30)),  # 14 and 4
        ("terms", (28, 30), (1, 30)),  # 18 and 11
        ("notices", (27, 30), (0, 30)),  # 16 and 5
        ("kitchen", (27, 30), (1, 30)),  # 10 and 5; 22 and 4 after the mending on the three before it
        ("networks", (24, 30), (0, 30)),  # 17 and 5
        ("leave", (24, 30), (1, 30)),  # 14 and 6
        ("washing", (23, 30), (1, 30)),  # 10 and 8
        ("leave again", (23, 39), (4, 47)),
        ("washing again", (29, 39), (3, 48)),
        ("terms again", (0, 0), (2, 33)),
        ("kitchen again", (0, 0), (0, 33)),
        ("notices again", (0, 0), (1, 33)),
        ("fresh again", (27, 31), (0, 32)),
        ("last again", (11, 13), (0, 12)),
        ("shed", (14, 20), (0, 20)),  # 10 and 2
        ("jars", (17, 30), (6, 30)),  # 10 and 8; the check wasn't mended on these
        ("statutes", (35, 40), (1, 40)),  # at the first look 19 and 13
        ("steamer", (32, 40), (1, 40)),  # 19 and 10; 21 and 7 after the mending on the one before
        ("bathing", (28, 40), (0, 40)),  # 19 and 7; 22 and 2 after the mending on the two before
        ("hours", (22, 40), (4, 40)),  # 20 and 10; the check wasn't mended on these
    ],
)
def test_most_wrong_claims_are_found_and_few_right_ones_are_marked(
    name: str, wrong: tuple[int, int], right: tuple[int, int]
) -> None:
    """The figures may only get better; all sets but the first two are of texts that the check wasn't written for."""
    cases = labelled(name)
    for is_right, (marked, n) in ((False, wrong), (True, right)):
        found = [bool(slips(claim, [text])) for text, claim, label in cases if label is is_right]
        assert len(found) == n
        assert sum(found) <= marked if is_right else sum(found) >= marked


TABLE = "| Model | Pressure (bar) | Weight |\n| --- | --- | --- |\n| KX60 | 4 | 11 kg |\n| KX67 | 6.5 | 14 kg |\n"
SETTINGS = """- **size_limit** (*Optional*): 2 MB, 4 MB or 8 MB. A file that is larger is refused, and
  two of 8 MB fill the disk. Defaults to ``4MB``.
- **key_file** (**Required**): Where the key is.
* `"tabWidth"` (default `4`) says how wide a tab is, of two columns and more

## `fastMode`

Whether to hurry. Values: on, off.

**Default value:** `off`
"""


@pytest.mark.parametrize(
    ("passage", "right", "wrong", "kind"),
    [
        ("The part AB-100 fits.", "AB100 fits.", "AB-101 fits.", "token"),
        ("Version 2.4.1 is current.", "v2.4.1 is current.", "Version 2.4.2 is current.", "token"),
        ("Ask Ana Duarte about keys.", "Keys: ask Ana Duarte.", "About keys ask Ana Duarez.", "token"),
        ("Keys expire after 90 days.", "Keys expire after ninety days.", "Keys expire after 60 days.", "number"),
        ("Keys expire after 2 weeks.", "Keys expire after 14 days.", "Keys expire after 2 months.", "unit"),
        ("It holds 1,500 entries.", "It holds 1500 entries.", "It holds 15,000 entries.", "number"),
        ("A run ends at 14:30.", "A run ends at 2:30 pm.", "A run ends at 2:30 am.", "date"),
        ("It began on 3 May 2025.", "It began on 2025-05-03.", "It began on 2025-03-05.", "date"),
        ("Badges must be worn.", "Badges have to be worn.", "Badges may be worn.", "negation"),
        ("The door isn't locked.", "The door is not locked.", "The door is locked.", "negation"),
        ("Smoking is forbidden here.", "Smoking is not allowed here.", "Smoking is allowed here.", "negation"),
        (TABLE, "The KX60 weighs 11 kg.", "The KX60 weighs 14 kg.", "row"),
        (TABLE, "The pressure of the KX67 is 6.5 bar.", "The pressure of the KX60 is 6.5 bar.", "row"),
        ("E1 means blocked; E2 means that oil is low.", "E2: oil is low.", "E1 means that oil is low.", "row"),
        ("Backups run daily.", "Backups run every day.", "Backups run weekly.", "unit"),
        ("You hear within 5 days, and a full answer follows in 10 days.", "A full answer follows in ten days.",
         "A full answer follows in 5 days.", "row"),
        ("The first tool was written by Ana Duarte. Bo Lindqvist made the new parser of the second release.",
         "Bo Lindqvist made the parser.", "Ana Duarte made the new parser of the second release.", "row"),
        ("Set `mode = fast` to begin.", 'The mode is "fast".', 'The mode is "slow".', "token"),
        ("Always lock the door at night.", "The door is always locked at night.", "Never lock the door at night.",
         "negation"),
        ("Take them with or after food.", "Take them after food.", "Take them before food.", "order"),
        ("Lock the case before you leave the room.", "Leave the room after you lock the case.",
         "Leave the room before you lock the case.", "order"),
        ("Most valves are tested by hand.", "Most of the valves are tested by hand.", "All valves are tested by hand.",
         "quantity"),
        ("Staff may enter the vault only if a guard is present.", "If a guard is present, staff may enter the vault.",
         "Staff may enter the vault at any time.", "condition"),
        ("The mayor accused the council of waste.", "The council was accused of waste by the mayor.",
         "The council accused the mayor of waste.", "role"),
        ("Adults pay 14 euros, students 8.", "Adults pay 14 euros.", "Students pay 14 euros.", "row"),
        ("Talks are in German in the morning and in English in the evening.", "In the evening talks are in English.",
         "In the evening talks are in German.", "row"),
        ("The landlord must state the reason; the tenant need not.", "The tenant need not state the reason.",
         "The landlord need not state the reason.", "negation"),
        ("Rooms cost up to 80 euros, in Rome and Paris up to 120.", "In Rome a room may cost 120 euros.",
         "In Rome a room may cost 80 euros.", "row"),
        ("Check the belt once a month and the chain every two years.", "The belt is checked once a month.",
         "The chain is checked every month.", "row"),
        ("Release 4 added a counter on port 7, and release 6 one on port 8.",
         "Port 8 has had a counter since release 6.", "Release 4 added the counter on port 8.", "row"),
        ("A1 means that the tank is empty, A2 that it overflows.", "A2 means that it overflows.",
         "A1 means that it overflows.", "row"),
        ("| Case | Height | Waterproof |\n| --- | --- | --- |\n| Duo | 20 cm | yes |\n| Trio | 25 cm | no |\n",
         "The Trio has more height than the Duo.", "The Duo has more height than the Trio.", "row"),
        ("| Case | Height | Waterproof |\n| --- | --- | --- |\n| Duo | 20 cm | yes |\n| Trio | 25 cm | no |\n",
         "The Trio isn't waterproof.", "The Trio is waterproof.", "negation"),
        ("Dogs aren't admitted, except on the terrace.", "Dogs are admitted on the terrace.",
         "Dogs aren't admitted on the terrace.", "condition"),
        ("Some guests need a visa.", "Some of the guests need a visa.", "Everybody needs a visa as a guest.",
         "quantity"),
        ("Report it to the clerk first and then to the manager.", "Report it to the clerk, then to the manager.",
         "Report it to the manager first, then to the clerk.", "order"),
        ("Lift the lid while you breathe in slowly.", "While you breathe in slowly, lift the lid.",
         "Lift the lid while you breathe out slowly.", "negation"),
        ("Spit the wine out; don't swallow it.", "Don't swallow the wine, spit it out.", "Swallow the wine.",
         "negation"),
        ("If the pressure falls below 3 bar, a bell rings.", "A bell rings if the pressure is below 3 bar.",
         "If the pressure rises above 3 bar, a bell rings.", "negation"),
        ("Hand it in within 30 days of the purchase. The approval is quick.", "Hand it in 30 days after the purchase.",
         "Hand it in within 30 days of the approval.", "row"),
        ("| Case | Height |\n| --- | --- |\n| Duo | 20 cm |\n| Trio | 25 cm |\n| Solo | 15 cm |\n",
         "The case with the most height is the Trio.", "The case with the least height is the Duo.", "row"),
        (SETTINGS, "By default the size limit is 4 MB.", "By default the size limit is 8 MB.", "row"),
        (SETTINGS, "size_limit may be left out.", "size_limit must be given.", "negation"),
        (SETTINGS, "`key_file` is mandatory.", "`key_file` is optional.", "negation"),
        (SETTINGS, "Unless it is set, fastMode is off.", "Unless it is set, fastMode is on.", "row"),
        (SETTINGS, "If tabWidth isn't set, it is four.", "If tabWidth isn't set, it is two.", "row"),
        ("| Gain | Range |\n| --- | --- |\n| 6 | 6 V |\n| 4 | 4 V |\n", "A gain of 4 reaches 4 V.",
         "A gain of 4 reaches 6 V.", "row"),
        ("Fees are 1 dollar for a bike, 2 for a boat.", "The fee for a boat is 2 dollars.",
         "The fee for a boat is 1 dollar.", "row"),
        ("| Code | Setting | Range | Factory |\n| --- | --- | --- | --- |\n| H1 | pump overrun | 1 to 15 min | 5 min |",
         "The factory value of the pump overrun is 5 min.", "The factory value of the pump overrun is 15 min.", "row"),
        ("Test the valve every two years.", "The valve is tested every second year.", "The valve is tested every year.",
         "unit"),
        ("Rooms cost 90 euros, tents 20.", "Rooms cost 70 euros more than tents.",
         "Rooms cost 60 euros more than tents.", "number"),
        ("Boxes of more than 30 kg go by ship.", "A 40 kg box goes by ship.", "Boxes of less than 30 kg go by ship.",
         "negation"),
        ("Cash prizes were abolished in 2019.", "Since 2019 there have been no cash prizes.",
         "Cash prizes were introduced in 2019.", "negation"),
        ("The heater draws 40 kilowatts.", "The heater draws 40 kW.", "The heater draws 40 megawatts.", "unit"),
        ("The belt runs at 80-120 mm/sec.", "The belt runs at 80 to 120 mm/s.", "The belt runs at 80 to 120 mm/min.",
         "unit"),
        ("The audit takes place quarterly.", "The audit takes place four times a year.",
         "The audit takes place twice a year.", "number"),
        ("Parking costs $0.80 per hour.", "Parking costs 80 cents per hour.", "Parking costs 80 cents per day.",
         "unit"),
        ("Printer P2 came out on 20210504.", "Printer P2 came out on 4 May 2021.",
         "Printer P2 came out on 5 April 2021.",
         "date"),
        ("Clients SHOULD retry the request.", "Clients should retry the request.", "Clients must retry the request.",
         "negation"),
        ("The pump has to be *at most* 3 years old.", "The pump may be three years old at the most.",
         "The pump has to be at least 3 years old.", "negation"),
        ("Unspent leave doesn't roll over into the next year.", "Unspent leave isn't carried over into the next year.",
         "Unspent leave rolls over into the next year.", "negation"),
        ("The siren mode uses lower power and gives higher volume.",
         "In siren mode the power is lower, the volume higher.",
         "The siren mode uses higher power and gives lower volume.", "negation"),
        ("The green lamp on the meter turns on at noon.", "At noon the green lamp turns on.",
         "The green lamp on the meter turns off at noon.", "negation"),
        ("The pilot saves the log if the tower loses contact.",
         "If the tower loses contact, the log is saved by the pilot.",
         "The tower saves the log if the pilot loses contact.", "role"),
        ("Bicycles are welcome instead of cars.", "Bicycles rather than cars are welcome.",
         "Cars are welcome instead of bicycles.", "role"),
        ("The warden is in charge of the keys. The cook is responsible for ordering fresh bread.",
         "Ordering fresh bread is the cook's task.", "The warden is responsible for ordering fresh bread.", "role"),
        ("First the seal is inspected. Then the tank is filled with brine.",
         "The seal is inspected before the tank is filled.",
         "The tank is filled with brine before the seal is inspected.", "order"),
        ("Guests are told in advance of being moved.", "Guests are told before being moved.",
         "Guests are told after being moved.", "order"),
        ("The discount is for stays of >3 nights.", "The discount is for stays of more than 3 nights.",
         "The discount is for stays of less than 3 nights.", "negation"),
        ("## Crane 2.1\n\n* The XR9 hook is supported.\n\n## Crane 2.2\n\n* A second motor was added.\n",
         "Crane 2.2 added a second motor.", "Crane 2.2 supports the XR9 hook.", "row"),
        ("# Ferry 3.0\n\nReleased on 2 May 2023.\n\n# Ferry 3.1\n\nReleased on 9 June 2023.\n",
         "Ferry 3.1 came out on 9 June 2023.", "Ferry 3.1 was released on 2 May 2023.", "date"),
        ("The pool pays 500 euros. | Trip | Limit |\n| --- | --- |\n| Seaside | 500 euros |\n| Forest | 200 euros |\n",
         "The limit of a forest trip is 200 euros.", "The limit of a forest trip is 500 euros.", "row"),
        ("| Rope | Load at 5 degrees | Load at 60 degrees |\n| --- | --- | --- |\n| R1 | 20 kg | 25 kg |\n",
         "R1 carries a load of 25 kg at 60 degrees.", "R1 carries a load of 20 kg at 60 degrees.", "row"),
        ("The default speed is 40 rpm.", "By default the speed is 40 rpm.", "The default speed is 60 rpm.", "number"),
        ("In month 4 the rent rises to 90 %.", "The rent rises to 90 % in month 4.",
         "In month 3 the rent rises to 90 %.",
         "token"),
        ("| Tool | Speed |\n| --- | --- |\n| **zip** 1.2 -1 | 95 |\n| [lz] 3.1 | 400 |\n", "zip has a speed of 95.",
         "zip has a speed of 400.", "row"),
        ("Visitors must not feed the goats.", "Visitors may not feed the goats.", "Visitors may feed the goats.",
         "negation"),
        ("The vault isn't opened until two clerks are present.", "The vault is opened when two clerks are present.",
         "The vault is opened when three clerks are present.", "number"),
        ("Cover ends on the last day of the trip.", "Cover doesn't end until the last day of the trip.",
         "Cover doesn't end on the last day of the trip.", "negation"),
        ("The relay accepts only sealed crates.", "Unless crates are sealed, the relay doesn't accept them.",
         "The relay doesn't accept sealed crates.", "negation"),
        ("At night neither lift nor stairs are lit.", "At night the lift isn't lit, and the stairs aren't either.",
         "At night the lift and the stairs are lit.", "negation"),
        ("Guests pay for the ferry.", "Guests pay for the ferry, but nothing for the bus.",
         "Guests pay nothing for the ferry.", "negation"),
        ("The gate opens when the keeper receives the code.", "Sending the code to the keeper opens the gate.",
         "The gate closes when the keeper receives the code.", "negation"),
        ("The lamp goes out when the battery is empty.", "If the battery isn't empty, the lamp stays lit.",
         "If the battery isn't empty, the lamp goes out.", "negation"),
        ("The deposit is returned if you cancel at least 3 days ahead.",
         "If you cancel less than 3 days ahead, the deposit isn't returned.",
         "If you cancel less than 3 days ahead, the deposit is returned.", "negation"),
        ("To join the choir, you must sing two songs.", "You can join the choir by singing two songs.",
         "To join the choir, you may sing two songs.", "negation"),
        ("The mixer stops after the alarm.", "The mixer is stopped after the alarm.",
         "The mixer is stopped before the alarm.", "order"),
        ("Tickets lapse after 90 days.", "Tickets lapse after about three months.", "Tickets lapse after four months.",
         "number"),
        ("Guides earn double on weekends.", "On Saturdays guides earn double.", "On Mondays guides earn double.",
         "token"),
        ("Drafts are kept for 40 days.", "After 40 days drafts are deleted.", "Drafts are deleted first.", "negation"),
        ("Schools pay half of the fee.", "Schools pay 50 % of the fee.", "Schools pay 40 % of the fee.", "number"),
        ("Groups of more than 20 people need a guide.", "A group of thirty needs a guide.",
         "Groups of more than 30 people need a guide.", "number"),
        ("A form must have a stamp.", "Every form needs a stamp.", "A form may have a stamp.", "negation"),
        ("The crane turns at 12 mm/s.", "The crane turns at 12 millimetres per second.",
         "The crane turns at 12 millimetres per minute.", "unit"),
        ("The mode is `log none` at first, without a screen.", "At first no screen is used, as the mode is `log none`.",
         "The mode is `log all` at first.", "token"),
        ("The loft is closed to children.", "The loft is off limits to children.", "The loft is open to children.",
         "negation"),
        ("Idle boats are moved after 5 days.", "Boats that are idle for less than 5 days aren't moved.",
         "Idle boats are moved before 5 days.", "order"),
        ("Never fill the flask while it is hot.", "The flask has to be cold when you fill it.",
         "Always fill the flask while it is hot.", "negation"),
        ("The porter can only open cupboards and has no key for the attic, so each parcel goes through the office.",
         "Each parcel goes through the office because the porter has no key for the attic.",
         "The porter has a key for the attic.", "negation"),
        ("Boats are not let to anglers in spring. The wharf lets boats to families in every month of the year.",
         "Anglers aren't let a boat by the wharf in spring.", "Boats are let to anglers in spring.", "negation"),
        ("Clerks can copy other people's drafts, but cannot rename a draft to hide its author. Editors can choose who"
         " can rename and copy drafts.", "Clerks can't rename a draft to hide its author.",
         "Clerks can rename other people's drafts to hide their author.", "negation"),
        ("No singing, dancing, or smoking is allowed.\nThe bar is open at night.", "Dancing isn't allowed.",
         "Dancing is allowed when the bar is open.", "negation"),
        ("Don't run or jump in the hall.", "Don't jump in the hall.", "Jump in the hall.", "negation"),
        ("Lodge keepers can lock the guest book. Only night keepers can unlock the wine cellar.",
         "The wine cellar can only be unlocked by night keepers.", "Lodge keepers can unlock the wine cellar.",
         "quantity"),
        ("A spoiled ballot has to be repeated (not recounted) on the next day.",
         "A spoiled ballot is repeated on the next day.", "A spoiled ballot is recounted on the next day.", "negation"),
        ("To see the oldest entry use `log top`. To delete the oldest entry for good, use `log drop`.",
         "`log drop` deletes the oldest entry.", "`log top` deletes the oldest entry for good.", "row"),
        ("The office waits 6 weeks and then destroys the file.", "The file is destroyed after six weeks.",
         "The office destroys the file immediately.", "row"),
        ("A shared shelf is cleared only when all of its owners agree.",
         "A shared shelf is cleared when all of its owners agree.",
         "A shared shelf is cleared as soon as one of its owners agrees.", "quantity"),
        ("Votes are taken outside the council by letter.", "Votes are taken by letter, outside the council.",
         "Votes are taken in the council.", "negation"),
        ("- Waiters get 70 % of the tips.\n- Cooks get 30 % of the tips.\n",
         "Waiters get 70 % of the tips and cooks get 30 %.", "Waiters get 30 % of the tips.", "row"),
        ("Some of this came with Rotor 0.8 and is missing in older ones.",
         "Parts of Rotor 0.8 may be missing in older ones.", "Parts of Rotor 0.9 may be missing in older ones.",
         "number"),
        ("When the archive deletes a folder, it tells the owner and deletes its spare copies.",
         "When the archive deletes a folder, its spare copies are deleted, too.",
         "When the archive deletes a folder, its spare copies are kept.", "negation"),
        ("If `depth` is set to 9 or left unset (the default), the scan goes on.", "By default `depth` isn't set.",
         "The scan goes on if `depth` is set to 8.", "number"),
        ("Members tell the clerk of Lund of a move two weeks ahead.", "Speak to the clerk two weeks ahead of a move.",
         "Speak to the clerk two days ahead of a move.", "unit"),
        ("During the count, ballots shall not be moved.", "Ballots aren't moved during the count.",
         "Ballots may already be moved during the count.", "negation"),
        ("You can save up to 24 flex hours. They lapse after 26 weeks.", "At most 24 flex hours can be saved.",
         "You can save up to 26 flex hours.", "number"),
        ("Pay is at most 900 crowns a week.", "Nobody is paid more than 900 crowns a week.",
         "Nobody is paid more than 700 crowns a week.", "number"),
        ("Lamps are lit by the porter.", "Lamps are lit by the porter, not by the guests.",
         "Lamps are lit by the guests, not by the porter.", "role"),
        ("# Spare keys\nGuests may copy a key. They don't get spare ones.", "Guests don't get spare keys.",
         "Guests may not copy a key.", "negation"),
        ("1. Warm the milk to about 140 degrees F (60 degrees C) and add\n   two spoons of honey.",
         "Warm the milk to 60 degrees C and add honey.", "Warm the milk to 80 degrees C and add honey.", "number"),
        ("Let the cake cool fully before slicing (otherwise it crumbles).",
         "If you slice the cake before it has cooled, it crumbles.", "Slice the cake before it has cooled.", "order"),
        ("Leave is unlimited, but we ask everybody to take at least 20 days a year.",
         "Leave is unlimited, and at least 20 days a year should be taken.",
         "Everybody takes at most 20 days of leave a year.", "negation"),
        ("Moss grows on the north wall of the old mill near the river.", "No moss grows on the barn roof or a fence.",
         "No moss grows on the north wall.", "negation"),
        ("Der Ofen darf nicht im Regen stehen.", "Im Regen darf der Ofen nicht stehen.",
         "Der Ofen darf im Regen stehen.", "negation"),
        ("Die Garantie gilt mindestens zwei Jahre.", "Mindestens zwei Jahre lang gilt die Garantie.",
         "Die Garantie gilt höchstens zwei Jahre.", "negation"),
        ("Üblich ist eine Probezeit von sechsmonatiger Dauer.", "Üblich ist eine Probezeit von sechs Monaten.",
         "Üblich ist eine Probezeit von neun Monaten.", "number"),
        ("Beträge werden auf volle Euro aufgerundet.", "Man rundet Beträge auf volle Euro auf.",
         "Beträge werden auf volle Euro abgerundet.", "negation"),
        ("Vor dem Sägen ist das Holz zu trocknen.", "Vor dem Sägen muss das Holz getrocknet werden.",
         "Vor dem Sägen muss das Holz nicht getrocknet werden.", "negation"),
        ("The moor covers 30 square kilometers.", "The moor covers 30 sq km.", "The moor covers 30 square meters.",
         "unit"),
        ("The dose is 4 mg twice daily.", "The dose is 8 mg a day.", "The dose is 12 mg a day.", "number"),
        ("The mill was begun in 1840 and finished in 1847.", "It took seven years to build the mill.",
         "It took nine years to build the mill.", "number"),
        ("Logs are now kept for 14 days (before: 7 days).", "Logs are kept twice as long as before.",
         "Logs are kept three times as long as before.", "number"),
        ("During World War I Peru bought the ship.", "The Peruvian state bought the ship during the First World War.",
         "The Chilean state bought the ship during the First World War.", "token"),
        ("Because the mill was closed, the road was shortened.", "The road was shortened because the mill was closed.",
         "The mill was closed because the road was shortened.", "role"),
        ("The Orla is the oldest canal in the land.", "The oldest canal in the land is the Orla.",
         "The Orla is the longest canal in the land.", "role"),
        ("Pine resin is soft and smells of lemon; larch resin is brittle and burns quickly.",
         "Pine resin smells of lemon.", "Larch resin is soft and smells of lemon.", "role"),
        ("Fewer than half of the guests were inside the hall.", "Most of the guests were outside the hall.",
         "All of the guests were inside the hall.", "negation"),
        ("Crates are weighed at the gate. They can also be opened, and their lids are kept in the yard.",
         "Crates can be opened.", "Crates must be weighed at the gate and must not be opened.", "negation"),
        ("Guests can smoke on the terrace, but not in the hall.", "Guests can't smoke in the hall.",
         "Guests can smoke in the hall.", "negation"),
        ("Tents are allowed, fires only in the pit.", "Fires are allowed only in the pit.",
         "All fires are allowed.", "quantity"),
        ("The serum must not be given to patients with fever.", "Patients who have fever must not be given the serum.",
         "The serum must not be given to any patients.", "quantity"),
        ("Children can use the saw if they are supervised.", "If they are supervised, children can use the saw.",
         "Children can use the saw without supervision.", "condition"),
        ("The fee was cut by a third.", "The fee was lowered by a third.", "The fee was cut to a third.", "row"),
        ("Prices did not change in spring.", "In spring prices didn't change.", "Prices increased in spring.",
         "negation"),
        ("Barley held more water than rye.", "Rye held less water than barley.", "Rye held more water.", "order"),
        ("The guild bought the tower from the Olsen family.", "The tower was bought by the guild.",
         "The Olsen family bought the tower from the guild.", "role"),
        ("Drafts are deleted at once and bills after ten years.", "Bills are deleted after ten years.",
         "Bills are deleted at once.", "row"),
        ("Iron the silk first and then the linen.", "The silk is ironed before the linen.", "Iron the linen first.",
         "order"),
        ("The pond is 40 m in diameter and 15 m deep.", "The pond has a diameter of 40 m.",
         "The pond is 15 m in diameter and 40 m deep.", "row"),
        ("The gate closes at 12:15.", "The gate closes at a quarter past twelve.",
         "The gate closes at half past twelve.", "date"),
        ("| Leg | Climb | Length |\n| --- | --- | --- |\n| 1 | 90 m | 9 km |\n| 4 | 70 m | 8 km |\n",
         "Leg 1 is longer than leg 4.", "Leg 4 is longer than leg 1.", "row"),
        ("Waits after work on a tooth\nCrown – wait 2 days"
         "\nFilling/Inlay – wait 3 hours\nCleaning – no wait\nRoot (open, no"
         " crown) – wait 1 week\nRoot (closed, crown) – wait 1 month\n", "After an inlay you wait three hours.",
         "After an inlay you wait two days.", "row"),
        ("– Crown – wait 2 days\n– Root (open, no pin) – wait 1 week\n– Root – wait 1 month\n",
         "With an open root and no pin the wait is one week.", "With an open root and no pin the wait is one month.",
         "row"),
        ("Fees by boat: Canoe - .5 crown, Dinghy - 1.5 crowns, Sloop - 4 crowns.", "A canoe costs .5 crown.",
         "A canoe costs 1.5 crowns.", "row"),
        ("• Daily: feed the hens\n• Weekly: clean the coop, weigh the hens\n• Monthly: oil the door\n",
         "The door is oiled once a month.", "The door is oiled every week.", "unit"),
        ("| Needs | For |\n| --- | --- |\n| 4.10.2.7 | 5.1.1.0 |\n| 3.9.0.12 | 4.10.1.3 |\n",
         "You need 4.10.2.7 for 5.1.1.0.", "You need 3.9.0.12 for 5.1.1.0.", "row"),
        ("Ferry rules\nDogs must be tied at all times\nBikes are free on the lower deck",
         "On the lower deck, bikes are free.", "Dogs need not be tied.", "negation"),
        ("After a fall, riders must obtain a doctor's note.", "Riders need a doctor's note after a fall.",
         "After a fall riders may start without a doctor's note.", "condition"),
        ("Wait until the glue is dry.", "Go on when the glue is dry.", "Go on before the glue is dry.", "order"),
        ("The siren sounds every 5 hours until a test succeeds.",
         "Until a test succeeds, the siren sounds every 5 hours.",
         "The siren sounds every 5 hours even after a test succeeds.", "order"),
        ("Members who live three miles or more from the hall get a bus.",
         "Members who live at least three miles from the hall get a bus.",
         "Members who live at most three miles from the hall get a bus.", "negation"),
        ("Will badges be needed? Yes. Badges will not be required in the first few days of the fair.",
         "In the first days of the fair badges aren't required.",
         "Badges are required in the first few days of the fair.", "negation"),
        ("Badges are issued to all guests during the first month of the fair.",
         "During the first month of the fair badges are issued to all guests.",
         "Badges are issued to all guests during the first week of the fair.", "unit"),
        ("The buoy gives four short whistles when it is running on its battery. When it is flooded, it howls.",
         "On its battery, the buoy gives four short whistles.", "When flooded, the buoy gives four short whistles.",
         "condition"),
        ("Grafting in CT or RI means a pause.", "Grafting in Connecticut (CT) means a pause.",
         "Grafting in NC means a pause.", "token"),
        ("The wait is at least 17 days. A pause of 2 weeks follows.", "A pause of two weeks follows.",
         "A pause of two months follows.", "unit"),
        ("The guild has eleven (11) members. A jury has three.", "The guild has 11 members.",
         "The guild has nine members.", "number"),
        ("Mix 1 1/2 cups of milk with ¾ tsp of salt.", "One and a half cups of milk are mixed with salt.",
         "Mix 1 1/2 teaspoons of milk with salt.", "unit"),
        ("Tiles are fired at 900 degrees C.", "Tiles are fired at 900 °C.", "Tiles are fired at 900 °F.", "unit"),
        ("A motion passes with two-thirds of the votes.", "Two thirds of the votes pass a motion.",
         "A motion passes with one third of the votes.", "unit"),
        ("If more than two crews apply, lots are drawn.", "Lots are drawn if three or more crews apply.",
         "Lots are drawn if five or more crews apply.", "number"),
        ("Bake the tiles for 26 to 35 minutes.", "The tiles bake for at least 26 minutes.",
         "Bake the tiles for at most 26 minutes.", "negation"),
        ("Divers may not bring:\n\n- knives\n- spear guns\n\nDivers may bring:\n\n- cameras\n- lamps of any size",
         "Divers may bring cameras.", "Divers may bring spear guns.", "negation"),
        ("Some gifts are not ok:\n\n- bottles of old wine\n- watches", "Bottles of old wine aren't ok.",
         "Bottles of old wine are ok.", "negation"),
        ("Keep in mind that not all sheds are locked.", "Not all sheds are locked.", "All sheds are locked.",
         "negation"),
        ("poll_time\n   How long the buoy sleeps between\n   two polls. Not supported on skiffs.\n\n   Default: 40\n\n"
         "pong_time\n   How long the buoy waits for a pong.\n\n   Default: 7\n", "poll_time isn't supported on skiffs.",
         "By default the buoy sleeps 7 seconds between two polls.", "row"),
        ("A hen's colour has no effect on that of her chicks.", "A hen's colour doesn't affect that of her chicks.",
         "A hen's colour affects that of her chicks.", "negation"),
        ("Guides may mark and widen trails but not close trails.", "Guides may mark trails.",
         "Guides may close trails.", "negation"),
        ("Names of divers aren't shown (unless a court asks).", "Unless a court asks, names of divers aren't shown.",
         "The names of divers are never shown.", "condition"),
        ("Losses may be reported in writing or by phone.", "Losses may be reported by phone or in writing.",
         "Losses may be reported in writing only.", "quantity"),
        ("An answer usually comes within a few business days.", "Usually an answer comes within a few business days.",
         "Usually an answer comes within a few hours.", "unit"),
        ("The clerk will pass a loss to the harbour master or refer a loss to the guild.",
         "The clerk will refer a loss to the guild.", "The clerk will refer a loss to the harbour master.", "row"),
        ("Late crews are barred from sailing in the final race.", "Late crews may not sail in the final race.",
         "Late crews may sail in the final race.", "negation"),
        ("Fires are prohibited except at marked sites.", "Fires are permitted at marked sites.",
         "Fires are prohibited at all sites.", "condition"),
        ("Tanks are kept for the watering of crops by means of cans. Hoses are not allowed.", "Hoses aren't allowed.",
         "Hoses are allowed for the watering of crops.", "negation"),
        ("Only clerks can see the log.", "Guests can't see the log.", "The log can't be seen by clerks.", "negation"),
    ],
)  # fmt: skip
def test_a_claim_is_held_against_its_passage(passage: str, right: str, wrong: str, kind: str) -> None:
    assert slips(right, [passage]) == []
    assert kind in [slip.kind for slip in slips(wrong, [passage])]


def test_a_claim_of_two_passages_may_rest_on_both() -> None:
    claim = "The K1 holds 5 l and costs 20 EUR."
    assert slips(claim, ["The K1 holds 5 l.", "A K1 costs 20 EUR."]) == []
    assert slips(claim, ["The K1 holds 5 l."]) != []


@pytest.mark.parametrize("text", ["", " ", "|", "| |\n|-|\n", "1" * 400, "((", "-" * 500, "é" * 500, "a1" * 400, "\0"])
def test_any_text_is_read(text: str) -> None:
    assert slips(text, []) == slips(text, [])
    assert isinstance(slips(text, [text]), list)
    assert isinstance(slips("The K1 holds 5 l.", [text]), list)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("1 a " * 250, "1 of a " * 1100),
        ("every but " * 100, "all x but y " * 700),
        ("first then " * 90, "first, then to " * 500),
        ("It takes 5 kg of a. " * 50, "It takes 6 kg of a. " * 400),
    ],
)
def test_a_claim_that_repeats_itself_is_read_in_few_passes(
    claim: str, passage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass over a text was once a pass over each of its sentences, for each amount of the claim."""
    passes = 0

    def counted(text: str) -> Iterator[Quantity]:
        nonlocal passes
        passes += 1
        return read(text)

    read = amounts._quantities
    monkeypatch.setattr(amounts, "_quantities", counted)
    amounts.quantities.cache_clear()
    slips(claim, [passage])
    assert passes <= 100
