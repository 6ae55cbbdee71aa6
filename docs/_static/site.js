// Code and tables that are wider than the page can be scrolled with the keyboard too: those, and only those, take the focus.
function markScrollable() {
  for (const part of document.querySelectorAll("pre, .table-wrapper")) {
    if (part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", markScrollable);
addEventListener("resize", markScrollable);
addEventListener("toggle", markScrollable, true);
