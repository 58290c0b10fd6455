-- As pgio: every statement is planned anew with its own values.
SET plan_cache_mode = force_custom_plan
