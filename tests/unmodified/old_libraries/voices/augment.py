from settings import base
SCALE = base.SCALE
