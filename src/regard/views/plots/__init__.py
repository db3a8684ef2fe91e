"""One file, one plot: each takes an Axes (or makes one) and returns it. Needs the extra `viz`."""

try:
    import matplotlib as _matplotlib  # noqa: F401
    import scipy as _scipy  # noqa: F401
except ImportError as error:
    from regard.core.errors import MissingExtraError

    raise MissingExtraError("plots need matplotlib and scipy; install them with: pip install 'regard[viz]'") from error

from regard.views.plots.against_length import cost_by_length as cost_by_length
from regard.views.plots.by_distance import distance_profile as distance_profile
from regard.views.plots.channel_gate_bars import channel_bars as channel_bars
from regard.views.plots.clustered import clustermap as clustermap
from regard.views.plots.coordinate_gate_lines import row_and_column_gates as row_and_column_gates
from regard.views.plots.gate_maps import gate_over_image as gate_over_image
from regard.views.plots.grid_of_heads import head_grid as head_grid
from regard.views.plots.layers_by_heads import overview as overview
from regard.views.plots.lift_map import lift as lift
from regard.views.plots.mask_drawing import draw_mask as draw_mask
from regard.views.plots.one_head import heatmap as heatmap
from regard.views.plots.over_positions import entropy_bands as entropy_bands
from regard.views.plots.ratios_and_targets import ratio_bars as ratio_bars
from regard.views.plots.receptive_field import draw_field as draw_field, field_of_pixel as field_of_pixel
from regard.views.plots.scores_of_variants import scores as scores
from regard.views.plots.segments import segment_flow as segment_flow
from regard.views.plots.similarity_of_heads import head_similarity as head_similarity
from regard.views.plots.token_bar_chart import token_bars as token_bars
from regard.views.plots.training_curves import curves as curves
from regard.views.plots.window_regions import draw_windows as draw_windows
from regard.views.plots.window_weights import weights_over_image as weights_over_image
