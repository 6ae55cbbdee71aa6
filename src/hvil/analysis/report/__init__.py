"""The report of a learner: one HTML page to read, and to step through its episodes.

`report` plays and puts everything together, `episodes` selects what is shown, `distributions` adds probabilities,
`pictures` draws, `content` makes JSON of it, `page` writes HTML. The script and the style of the page are in `assets`.
"""

from hvil.analysis.report.content import RunFacts
from hvil.analysis.report.report import PLAYED, Report, report_page

__all__ = ["PLAYED", "Report", "RunFacts", "report_page"]
