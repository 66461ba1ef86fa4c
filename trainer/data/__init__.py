"""Market bars in, one checked table out: loading, features, folds.

bars = load_bars("us-daily")
table = market_table(bars, DataConfig(), purge=4)
"""

from trainer.data.bars import Bars, load_bars
from trainer.data.catalogue import BUNDLED
from trainer.data.errors import DataError
from trainer.data.features import CLIP, FEATURES, WARM_UP, compute_features
from trainer.data.folds import Fold, Span, holdout, make_folds
from trainer.data.report import LoadReport
from trainer.data.table import MarketTable, market_table

__all__ = [
    "BUNDLED",
    "CLIP",
    "FEATURES",
    "WARM_UP",
    "Bars",
    "DataError",
    "Fold",
    "LoadReport",
    "MarketTable",
    "Span",
    "compute_features",
    "holdout",
    "load_bars",
    "make_folds",
    "market_table",
]
