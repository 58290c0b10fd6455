SET application_name = 'replayer session {{number}}'
