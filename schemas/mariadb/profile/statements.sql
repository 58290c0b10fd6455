SELECT CASE WHEN variable_name = 'COM_SELECT' THEN 'select'
            WHEN variable_name LIKE 'COM\_INSERT%' OR variable_name LIKE 'COM\_REPLACE%' THEN 'insert'
            WHEN variable_name LIKE 'COM\_UPDATE%' THEN 'update'
            ELSE 'delete' END AS kind,
       SUM(variable_value) AS calls
-- include parts/status
WHERE variable_name IN ('COM_SELECT', 'COM_INSERT', 'COM_INSERT_SELECT', 'COM_REPLACE', 'COM_REPLACE_SELECT',
                        'COM_UPDATE', 'COM_UPDATE_MULTI', 'COM_DELETE', 'COM_DELETE_MULTI')
GROUP BY kind
