"""New pictures from windows of stored ones: local heads with annealed noise, illumination, warps."""
