"use strict";
// What moves on a page: notes at points, a search box and sortable columns for tables, and sliders on the frontier.
(() => {
  const tip = document.getElementById("tip");
  const show = (event) => {
    const mark = event.target.closest("[data-tip]");
    if (!mark) { tip.hidden = true; return; }
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const left = Math.min(Math.max(4, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 4);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = left + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 8) + "px";
  };
  for (const kind of ["mouseover", "focusin", "click"]) document.addEventListener(kind, show);
  document.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  for (const box of document.querySelectorAll("input[data-search]")) {
    const table = document.getElementById(box.dataset.search);
    const said = document.getElementById(box.dataset.search + "-count");
    const filter = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const name = row.cells[0].textContent.toLowerCase();
        const hit = words.every((word) => name.includes(word));
        row.hidden = !hit;
        shown += hit;
      }
      said.textContent = `${shown} of ${table.tBodies[0].rows.length} shown` + (box.dataset.absent
        ? `; ${box.dataset.absent} more are not on this page` : "");
    };
    box.addEventListener("input", filter);
    filter();
  }

  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), body = head.closest("table").tBodies[0];
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[head.cellIndex].dataset.value;
      const numeric = [...body.rows].every((row) => key(row) === "" || !isNaN(key(row)));
      const sign = down ? -1 : 1;
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * (numeric ? x - y : x.localeCompare(y));
      };
      body.append(...[...body.rows].sort(order));
    });
  }

  for (const slider of document.querySelectorAll("[data-edges]")) {
    const lines = [...document.querySelectorAll("[data-rank]")];
    slider.addEventListener("input", () => {
      const shown = +slider.value;
      for (const line of lines) line.setAttribute("display", +line.dataset.rank <= shown ? "inline" : "none");
      const least = lines.find((line) => +line.dataset.rank === shown).dataset.size;
      document.getElementById("edges-shown").textContent = shown === 1
        ? `The strongest of ${slider.dataset.edges} couplings is shown; its size is ${least}.`
        : `The ${shown} strongest of ${slider.dataset.edges} couplings are shown, down to a size of ${least}.`;
    });
  }

  for (const panel of document.querySelectorAll("[data-mixtures]")) {
    const data = JSON.parse(document.getElementById(panel.dataset.mixtures).textContent);
    const point = document.getElementById(panel.dataset.mixtures + "-point");
    const [family, lam, beta, said] = ["family", "lam", "beta", "said"].map((name) => panel.querySelector(`[name=${name}]`));
    const place = (scale, value) => {
      const share = (Math.log(value) - Math.log(scale.low)) / (Math.log(scale.high) - Math.log(scale.low));
      return scale.start + Math.min(1, Math.max(0, share)) * (scale.stop - scale.start);
    };
    const move = () => {
      const table = data.families[+family.value];
      const l = table.lam[+lam.value], b = table.beta[+beta.value];
      panel.querySelector("[data-value=lam]").textContent = l;
      panel.querySelector("[data-value=beta]").textContent = b;
      const cost = table.cost[+lam.value][+beta.value], variance = table.variance[+lam.value][+beta.value];
      const policy = table.policy[+lam.value][+beta.value];
      if (variance === null) {
        point.setAttribute("visibility", "hidden");
        said.textContent = `${policy} does not determine all parameters.`;
        return;
      }
      const x = place(data.x, cost), y = place(data.y, variance);
      const outside = cost < data.x.low || cost > data.x.high || variance < data.y.low || variance > data.y.high;
      point.setAttribute("visibility", outside ? "hidden" : "visible");
      point.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      said.textContent = `${policy}: ${table.text[+lam.value][+beta.value]}` + (outside ? " (outside the picture)" : "");
    };
    for (const control of [family, lam, beta]) for (const kind of ["input", "change"]) control.addEventListener(kind, move);
    move();
  }
})();
