// The optimizer's runs: starting one, a chart of its trials with the best so far, and deploying its result.
(() => {
  "use strict";

  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-search], [data-deploy]")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    try {
      await (form.matches("[data-search]") ? start(form) : deploy(form));
    } catch (error) {
      hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });

  async function start(form) {
    const input = { deploy: form.elements.deploy.checked };
    for (const field of form.querySelectorAll("[data-budget]")) {
      if (field.value !== "") input[field.name] = Number(field.value);
    }
    const run = await hive.api("POST", "/api/runs", { graph: "optimizer", input });
    location.assign(`/optimize/${encodeURIComponent(run.run_id)}`);
  }

  async function deploy(form) {
    const fields = form.elements;
    const wanted = {
      config: fields.config.value,
      hash: fields.hash.value,
      of: Number(fields.of.value),
      allow_inconclusive: fields.allow_inconclusive.checked,
      override: fields.override.checked,
      accept_tags: fields.accept_tags.value.split(",").map((tag) => tag.trim()).filter(Boolean),
      accept: [...form.querySelectorAll("[name=accept]:checked")].map((box) => box.value),
    };
    if (fields.reason.value.trim()) wanted.reason = fields.reason.value.trim();
    const outcome = await hive.api("POST", "/api/deploy", wanted);
    const place = form.querySelector("[data-outcome]");
    const words = place.dataset;
    const line = (text, kind) => {
      const made = document.createElement("p");
      made.className = kind;
      made.textContent = text;
      return made;
    };
    const lines = outcome.deployed
      ? [line(filled(words.deployed, { name: outcome.deployed }), "good")]
      : [line(filled(words.kept, { name: outcome.previous }), "bad")];
    for (const reason of outcome.reasons) {
      const about = await hive.aboutOf(reason.code);
      lines.push(line(`${reason.code}: ${about ? `${about}: ` : ""}${reason.message}`, ""));
    }
    if (outcome.approval_id) {
      const link = document.createElement("a");
      link.href = `/approvals/${encodeURIComponent(outcome.approval_id)}`;
      link.textContent = words.asked;
      const wrap = line("", "");
      wrap.append(link);
      lines.push(wrap);
    }
    if (outcome.deployed) {
      const undo = document.createElement("a");
      undo.href = "/optimize";
      undo.textContent = words.undo;
      lines.push(line("", ""));
      lines.at(-1).append(undo);
    }
    place.replaceChildren(...lines);
    if (outcome.deployed) form.querySelector("[type=submit]").remove();
    else form.querySelector("details").open = true;
    form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
  }

  // The chart: x is the number of the trial.
  const trials = [];
  let plot = null;

  // The colour itself: the variable has one for light and one for dark.
  const colour = (name) => {
    const place = document.getElementById("chart");
    place.style.color = `var(${name})`;
    const found = getComputedStyle(place).color;
    place.style.color = "";
    return found;
  };

  function series() {
    let train = null;
    let validation = null;
    const best = document.getElementById("chart").dataset.best;
    const data = [[], [], [], [], []];
    for (const one of trials) {
      if (one.verdict === "accept" && one.train !== null && (train === null || one.train > train)) {
        train = one.train;
        validation = one.validation;
      }
      data[0].push(one.number);
      data[1].push(one.train);
      data[2].push(train);
      data[3].push(validation);
      data[4].push(best && one.config === best ? one.train : null);
    }
    return data;
  }

  function draw(place) {
    const data = series();
    if (plot) {
      plot.setData(data);
      return;
    }
    const words = place.dataset;
    const axis = (label) => ({ label, labelSize: 22, stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } });
    plot = new uPlot(
      {
        width: place.clientWidth,
        height: Math.min(320, Math.max(220, place.clientWidth / 3)),
        scales: { x: { time: false } },
        axes: [axis(words.labelNumber), axis(words.labelMeasure)],
        series: [
          { label: words.labelNumber },
          { label: words.labelTrial, stroke: colour("--soft"), paths: () => null, points: { show: true, size: 5, fill: colour("--soft") } },
          { label: words.labelTrain, stroke: colour("--accent"), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
          { label: words.labelValidation, stroke: colour("--good"), width: 2, dash: [6, 4], paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
          { label: words.labelBest, stroke: colour("--accent"), paths: () => null, points: { show: true, size: 13, width: 3, fill: colour("--ground") } },
        ],
        hooks: { setCursor: [hovered] },
      },
      data,
      place,
    );
    window.addEventListener("resize", () => plot.setSize({ width: place.clientWidth, height: plot.height }));
  }

  const written = new Intl.NumberFormat(document.documentElement.lang, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
  const figure = (value) => (value === null ? "–" : written.format(value));

  function hovered(chart) {
    const line = document.getElementById("hovered");
    const words = document.getElementById("chart").dataset;
    const one = trials[chart.cursor.idx];
    line.textContent = one
      ? `${one.number}: ${one.step || one.reason} · ${figure(one.train)} / ${figure(one.validation)} · ${words[`verdict${one.verdict[0].toUpperCase()}${one.verdict.slice(1)}`]}: ${one.feedback}`
      : line.dataset.empty;
  }

  async function more(place) {
    for (;;) {
      const after = trials.length ? trials[trials.length - 1].number : 0;
      const page = await hive.api("GET", `/api/runs/${encodeURIComponent(place.dataset.run)}/trials?limit=2000&after=${after}`);
      trials.push(...page.trials);
      if (!page.more) break;
    }
    if (trials.length) draw(place);
  }

  // Refreshes run one after the other, so that each trial is fetched once.
  let looking = Promise.resolve();

  function look(place, { first = false } = {}) {
    looking = looking.then(async () => {
      const before = trials.length;
      await more(place);
      const table = document.getElementById("trials");
      if (!first && before !== trials.length && !table.contains(document.activeElement)) htmx.trigger(table, "renew");
    }).catch((error) => {
      if (error.status !== 0) hive.explain(error); // live.js reports an unreachable server
    });
  }

  document.addEventListener("hive:changed", (event) => {
    const place = document.getElementById("chart");
    if (place && event.detail.some((one) => one.kind === "all" || one.id === place.dataset.run)) look(place);
  });

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("chart");
    if (place) look(place, { first: true });
  });
})();
