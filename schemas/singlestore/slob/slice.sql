CALL {{table}}_slice(
    :work_unit, :update_work_unit, :rows, :stop_at, :seconds, :operations, :update_pct,
    :window_left, :updates_left)
