from features import *
import augment, settings.base
import settings.base as base

assert settings.base is base and augment.SCALE == base.SCALE
