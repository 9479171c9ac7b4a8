"""Estimators for scikit-learn: nets that pipelines, grid searches and cross-validation take like its own.

Needs the package scikit-learn, which is imported when a class is first named: pip install "lamina[sklearn]".
"""
from __future__ import annotations

from .. import _elsewhere, errors

__all__ = ["EnsembleClassifier", "EnsembleRegressor", "MLPClassifier", "MLPRegressor"]


def _package() -> None:
    try:
        import sklearn.utils.validation

        sklearn.utils.validation.validate_data  # noqa: B018  scikit-learn 1.6 has it
    except (ImportError, AttributeError) as error:
        raise errors.NotFound("lm.sklearn: the package scikit-learn, 1.6 or later, is not installed", why=str(error), fix='pip install "lamina[sklearn]"') from None


TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers
    from ._estimators import EnsembleClassifier, EnsembleRegressor, MLPClassifier, MLPRegressor  # noqa: F401
else:  # they would take any name for one that there is
    _missing, __dir__ = _elsewhere.names_of("lm.sklearn", __all__)

    def __getattr__(name):
        if name not in __all__:
            return _missing(name)
        _package()
        from . import _estimators

        return getattr(_estimators, name)
