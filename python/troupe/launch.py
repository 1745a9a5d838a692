"""placeholder"""
class Result: pass
def run(): pass
