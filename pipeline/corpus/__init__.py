"""What the model will read: judge.py and settle.py are the two passes of the filter stage.

readers/ open files, rows/ make sense of a row, rules/ judge it, copies/ compare it with all
others, overlap/ with protected problems, selection/ fits the budget; execution/ runs it all.
"""
